"""Where the Python of a job finds its packages, as far as files tell; it is not started."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from hpckit.errors import AdapterError, StorageFailed
from hpckit.tune_ports import LibraryFiles

MOST_PATHS: Final = 200
"""Of PATH, of PYTHONPATH and of the .pth files of one folder that are looked into."""

_NAMES: Final = ("python3", "python")
_VERSION: Final = re.compile(r"python(3\.\d+)t?", re.ASCII)
_INTERPRETER: Final = re.compile(
    r"#!\s*(?P<short>/\S*/python[\d.]*t?)\s"
    r"|#!/bin/sh\n'''exec' \"?(?P<long>/[^\"\n]*/python[\d.]*t?)\"? ",
    re.ASCII,
)
"""The second form is pip's, for a path that is too long for the kernel or has a space in it."""
_MOST_SCRIPT_BYTES: Final = 256 * 1024
_PYVENV: Final = "pyvenv.cfg"
_MOST_CFG_BYTES: Final = 64 * 1024
_MOST_DEPTH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSites:
    """An interpreter and the folders of its packages, in the order in which Python looks.

    Source: site.py and "The initialization of the sys.path module search path" of Python 3.13.
    Those that a .pth file names are among them, those that one's `import` line adds are not.
    """

    python: str | None = None
    sites: tuple[str, ...] = ()


def python_sites(
    python: str | None, environment: Mapping[str, str], files: LibraryFiles
) -> PythonSites:
    """The packages of this interpreter, virtual environment or conda prefix; None is on PATH.

    No interpreter is no sites. Raises StorageFailed where the one that was named cannot be read.
    """
    found = _on_path(environment, files) if python is None else _named(python, files)
    if found is None:
        return PythonSites()
    prefix = posixpath.dirname(posixpath.dirname(found))
    own = dict.fromkeys(_of_prefix(prefix, found, environment, files))
    sites = (
        *(folder for folder in environment.get("PYTHONPATH", "").split(":")[:MOST_PATHS] if folder),
        *(folder for site in own for folder in (site, *_named_in_pth(site, files))),
    )
    return PythonSites(python=found, sites=tuple(dict.fromkeys(sites)))


def script_python(path: str, files: LibraryFiles) -> str | None:
    """The Python in a script's first line, such as that of torchrun; None where it names none."""
    try:
        data = files.data(path, _MOST_SCRIPT_BYTES) or b""
    except AdapterError:
        return None
    found = _INTERPRETER.match(data.decode("utf-8", "surrogateescape"))
    named = None if found is None else found["short"] or found["long"]
    return named if named is not None and _real(named, files) is not None else None


def _on_path(environment: Mapping[str, str], files: LibraryFiles) -> str | None:
    folders = [one for one in environment.get("PATH", "").split(":") if one.startswith("/")]
    for folder in folders[:MOST_PATHS]:
        for name in _NAMES:
            path = posixpath.join(folder, name)
            try:
                if files.real(path) is not None:
                    return path
            except AdapterError:
                continue
    return None


def _named(python: str, files: LibraryFiles) -> str:
    """The interpreter of an environment's folder, or the one that was named."""
    for name in _NAMES:
        path = posixpath.join(python, "bin", name)
        if files.real(path) is not None:
            return path
    if files.real(python) is None:
        raise StorageFailed(
            f"{python} is not there: it was to be the job's Python",
            hint="name a virtual environment, a conda environment's folder, or an interpreter",
        )
    return python


def _of_prefix(
    prefix: str, python: str, environment: Mapping[str, str], files: LibraryFiles, depth: int = 0
) -> Iterator[str]:
    """The sites of a virtual environment, and of what it stands on where it shows that."""
    config = _pyvenv(prefix, files)
    user = _user_base(environment)
    if config is not None:
        is_open = config.get("include-system-site-packages", "").lower() == "true"
        if is_open and user:
            yield from _sites_below(user, python, files)
        yield from _sites_below(prefix, python, files)
        home = config.get("home")
        if is_open and home and depth < _MOST_DEPTH:
            base = posixpath.dirname(home)
            real = _real(posixpath.join(home, "python3"), files) or python
            yield from _of_prefix(base, real, {"PYTHONNOUSERSITE": "1"}, files, depth + 1)
        return
    real = _real(python, files) or python
    if user:
        yield from _sites_below(user, real, files)
    for base in dict.fromkeys((prefix, posixpath.dirname(posixpath.dirname(real)))):
        # Debian keeps what pip installs apart from what the distribution brings.
        if base == "/usr":
            yield from _sites_below("/usr/local", real, files)
        yield from _sites_below(base, real, files)


def _sites_below(prefix: str, python: str, files: LibraryFiles) -> Iterator[str]:
    real = _real(python, files) or python
    version = _VERSION.fullmatch(posixpath.basename(real))
    for lib in ("lib", "lib64"):
        folder = posixpath.join(prefix, lib)
        for name in _names(folder, files):
            # Debian's packages lie below `python3`, for all versions.
            is_for_all = name == "python3"
            if not is_for_all and not _VERSION.fullmatch(name):
                continue
            if version is not None and not is_for_all and name != version[0]:
                continue
            for packages in ("site-packages", "dist-packages"):
                path = posixpath.join(folder, name, packages)
                if _real(path, files) is not None:
                    yield path


def _named_in_pth(site: str, files: LibraryFiles) -> Iterator[str]:
    """The folders that the .pth files of a site add behind it. Source: site.py, addpackage."""
    names = [name for name in _names(site, files) if name.endswith(".pth") and name[0] != "."]
    lines = (line for name in names[:MOST_PATHS] for line in _lines(f"{site}/{name}", files))
    for line in islice(lines, MOST_PATHS):
        path = posixpath.join(site, line)
        if not line.startswith(("#", "import ", "import\t")) and _real(path, files) is not None:
            yield path


def _user_base(environment: Mapping[str, str]) -> str | None:
    if environment.get("PYTHONNOUSERSITE"):
        return None
    given = environment.get("PYTHONUSERBASE")
    home = environment.get("HOME")
    return given or (posixpath.join(home, ".local") if home else None)


def _pyvenv(prefix: str, files: LibraryFiles) -> dict[str, str] | None:
    path = posixpath.join(prefix, _PYVENV)
    if _real(path, files) is None:
        return None
    pairs = (line.partition("=") for line in _lines(path, files))
    return {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}


def _lines(path: str, files: LibraryFiles) -> list[str]:
    """The lines of a small file that are not empty; none where it cannot be read."""
    try:
        data = files.data(path, _MOST_CFG_BYTES) or b""
    except AdapterError:
        return []
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    return [line.rstrip() for line in lines if line.strip()]


def _real(path: str, files: LibraryFiles) -> str | None:
    try:
        return files.real(path)
    except AdapterError:
        return None


def _names(folder: str, files: LibraryFiles) -> tuple[str, ...]:
    try:
        return tuple(files.names(folder))
    except AdapterError:
        return ()
