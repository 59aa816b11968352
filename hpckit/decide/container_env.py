"""Which variables a container must be told to let in, as its runtime wants it said.

Sources: pyxis, README.md, `--container-env` (an image's own value wins without it, and pyxis 0.24
and later say so); Apptainer User Guide, Environment and Metadata (`--cleanenv` and `--containall`
let in what begins with APPTAINERENV_ alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from hpckit.model.comm import CommEnv
from hpckit.model.plan import Option
from hpckit.model.site import SiteSpec

_PYXIS: Final = frozenset({"container-image", "container-name"})
_OPTION: Final = "container-env"
_RUNTIMES: Final = {"apptainer": "APPTAINERENV_", "singularity": "SINGULARITYENV_"}
_CLOSED: Final = frozenset({"-e", "--cleanenv", "-C", "--containall", "-ce", "-ec"})
_VERBS: Final = frozenset({"exec", "run", "shell", "test"})


def with_container_env(
    options: Sequence[Option], comm: CommEnv, site: SiteSpec
) -> tuple[Option, ...]:
    """The step's options; one that runs a container by pyxis lets the job's variables in."""
    if not _PYXIS & {option.name for option in options}:
        return tuple(options)
    said = [option.value or "" for option in options if option.name == _OPTION]
    own = [name for value in said for name in value.split(",") if name]
    names = dict.fromkeys((*own, *(one.name for one in comm.settings), *site.container.variables))
    kept = [option for option in options if option.name != _OPTION]
    if not names:
        return tuple(options)
    return (*kept, Option(name=_OPTION, value=",".join(names)))


def closed_prefix(command: Sequence[str]) -> str | None:
    """How a variable is called that is let into this container; None for an open one, or none."""
    prefix = _RUNTIMES.get(PurePath(command[0]).name)
    if prefix is None or not any(word in _VERBS for word in command[1:]):
        return None
    image = next((at for at, word in enumerate(command) if _is_image(word)), len(command))
    return prefix if any(word in _CLOSED for word in command[:image]) else None


def _is_image(word: str) -> bool:
    """Whether a word of the command is the image: what stands behind it is the program's own."""
    return word.endswith((".sif", ".sqsh", ".simg")) or "://" in word
