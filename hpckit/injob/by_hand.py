"""What `hpckit sample` says at its end: where the samples are, and what reads them."""

from __future__ import annotations

import os
from typing import NamedTuple


class Place(NamedTuple):
    """Where a sampler's blocks are: `target` below `out` is where they belong."""

    out: str
    target: str
    reached: str | None
    """The file that has what was copied, None where none has."""
    kept: str | None
    """The file on this node that has the rest, None where there is none."""
    is_lost: bool
    """Whether something is in neither."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it is where it belongs."""
        is_there = self.reached == f"{self.out}/{self.target}"
        return is_there and self.kept is None and not self.is_lost


def last_words(ticks: int, gpus: int, why: str, place: Place) -> str:
    """The lines for a person; `why` there is no GPU is NVML's error by its name, or a sentence."""
    samples = f"{ticks} samples of {_what(gpus)}"
    path = place.reached or place.kept
    if path is None:
        return f" lost   {samples}: no file has them\n"
    is_part = place.is_lost or (place.reached and place.kept)
    wrote = f" wrote  {'a part of ' if is_part else ''}{samples} · {word(path)}\n"
    rest = f" rest   {word(place.kept)}\n" if place.reached and place.kept else ""
    return f"{wrote}{rest}{_note(gpus, why)} next   {_next(place, path)}\n"


def _next(place: Place, path: str) -> str:
    """A command line that brings together what there is, and reads it."""
    before = ""
    if place.reached and place.kept:
        before = f"cat {word(place.kept)} >> {word(path)} && "
    if path == f"{place.out}/{place.target}":
        folder = place.out
    elif path.endswith(f"/{place.target}"):
        folder = path.removesuffix(f"/{place.target}")
    else:
        folder = f"{path.removesuffix('.samples')}.d"
        file = f"{folder}/{os.path.basename(place.target)}"
        before += f"mkdir {word(folder)} && mv {word(path)} {word(file)} && "
    return f"{before}hpckit report --from {word(folder)}"


def word(path: str) -> str:
    """A path as a word of bash; what cannot be seen is an escape that bash understands."""
    from shlex import quote

    if path.isprintable():
        return quote(path)
    return f"$'{''.join(map(_escaped, path))}'"


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte that is no UTF-8, as Python keeps it
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _what(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "the host alone"


def _note(gpus: int, why: str) -> str:
    if gpus or not why:
        return ""
    return f" note   no GPU: {why if ' ' in why else f'NVML {why}'}\n"
