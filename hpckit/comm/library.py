"""Which NCCL or RCCL a job will load, by package metadata and file names: no library is opened."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hpckit.comm.library_search import FoundNccl, NcclCandidate, NcclWhere
from hpckit.comm.nccl_conf import MOST_CONF_BYTES, Already, already_set, conf_paths
from hpckit.core.errors import StorageFailed
from hpckit.slurm.values import JobEntry
from hpckit.spec.folder import ACCOUNT_FOLDER, ledger_file, restart_of
from hpckit.spec.platform import CommLibrary, NcclVersion

if TYPE_CHECKING:
    from hpckit.core.files import LocalFiles

SONAMES: Final = {CommLibrary.NCCL: "libnccl.so.2", CommLibrary.RCCL: "librccl.so.1"}
"""Under which a program asks for them: NCCL's src/Makefile, RCCL's CMakeLists.txt."""

WHAT_TELLS: Final = "--nccl, or [tune] nccl in the job file, says which release it loads"

_LIBRARIES: Final = ("libnccl.so", "librccl.so")
_DEFAULT_FOLDERS: Final = (
    *(f"{usr}/lib/{cpu}-linux-gnu" for cpu in ("x86_64", "aarch64") for usr in ("", "/usr")),
    *("/lib64", "/usr/lib64"),
)
"""Of the loader, on Debian and on all others. Source: ld.so --help."""
_FILE_NAME: Final = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)", re.ASCII)
_IN_WHEEL: Final = "/nvidia/nccl/lib"
_NO_RELEASE: Final = "not known: its file name has no release"
_PYTHON: Final = re.compile(r"python(3\.\d+)t?", re.ASCII)
_MOST_CFG_BYTES: Final = 64 * 1024
_MOST_LEDGER_BYTES: Final = 1024**2
_MOST_JOBS: Final = 5


class _Package(NamedTuple):
    """What the metadata of a package is called, and where the package puts the library."""

    metadata: re.Pattern[str]
    library: CommLibrary
    path: str


_WHEELS: Final = (
    _Package(
        re.compile(r"nvidia_nccl_cu\d+-(\d+\.\d+\.\d+)(?:\.post\d+)?\.dist-info", re.ASCII),
        CommLibrary.NCCL,
        "nvidia/nccl/lib/libnccl.so.2",
    ),
    # ROCm's PyTorch brings a RCCL of its own, whose release no metadata tell.
    _Package(
        re.compile(r"torch-[^-]+\+rocm[^-]*()\.dist-info", re.ASCII),
        CommLibrary.RCCL,
        "torch/lib/librccl.so.1",
    ),
)
_CONDA: Final = tuple(
    _Package(
        re.compile(rf"{library}-(\d+\.\d+\.\d+)[^-]*-[^-]+\.json", re.ASCII),
        library,
        f"lib/{SONAMES[library]}",
    )
    for library in CommLibrary
)


def look_at_nccl(where: NcclWhere, files: LocalFiles) -> tuple[FoundNccl, Already]:
    """Return the library that a job loads there, and what is set already for it.

    Frameworks' wheels lead to the NCCL beside them before LD_LIBRARY_PATH counts (DT_RPATH of
    torch 2.15 and jax-cuda12-pjrt 0.12). A program may be linked either way, which is not looked
    at: where that makes a difference, nothing is chosen. Raises StorageFailed where the Python
    that was named is not there.
    """
    program = _environment_program(where, files)
    python = _python(where, program, files)
    packages = [] if python is None else list(_packages(python, where, files))
    listed = list(_listed(where, files))
    preloaded = [candidate for candidate in listed if candidate.how == "LD_PRELOAD"]
    others = [candidate for candidate in listed if candidate not in preloaded]
    found = _verdict([*preloaded, *_each_once([*packages, *others])])
    is_of_python = program or where.program in (None, "torchrun")
    if packages and others and not (preloaded or is_of_python):
        found = _either(where.program, found)
    already = _settings_in_place(where, found, files)
    return replace(found, notes=files.notes), already


def last_loaded(name: str, jobs: Sequence[JobEntry], files: LocalFiles) -> NcclCandidate | None:
    """Return what rank 0 of the last job of this name had loaded; None where no ledger says it.

    `jobs` are the newest first. An array's ledgers are not looked at.
    """
    for job in [job for job in jobs if job.name == name][:_MOST_JOBS]:
        account = f"{job.folder}/{ACCOUNT_FOLDER}"
        restarts = [restart for restart in files.names(account) if restart_of(restart) is not None]
        for restart in restarts:
            text = files.text(f"{account}/{restart}/{ledger_file(0)}", _MOST_LEDGER_BYTES) or ""
            for line in text.splitlines():
                candidate = _of_record(line, f"rank 0 of job {job.job_id}, the last of this name")
                if candidate is not None:
                    return candidate
    return None


def _of_record(line: str, how: str) -> NcclCandidate | None:
    try:
        record = json.loads(line) if '"library"' in line else {}
    except ValueError:  # the last line of a ledger may be cut short
        return None
    if record.get("record") != "library" or not record.get("release"):
        return None
    return NcclCandidate(
        library=CommLibrary.NCCL,
        path=record["path"],
        how=how,
        version=NcclVersion.of(record["release"]),
        version_from="what it had loaded",
    )


def _verdict(candidates: Sequence[NcclCandidate]) -> FoundNccl:
    if not candidates:
        names = " or ".join(SONAMES.values())
        because = (
            f"the job's Python has no package of NCCL, and {names} is neither on LD_LIBRARY_PATH"
            f" nor in a default folder; {WHAT_TELLS}"
        )
        return FoundNccl(chosen=None, because=because)
    chosen, *rest = candidates
    others = tuple(replace(other, lost=f"{chosen.how} comes before") for other in rest)
    return FoundNccl(chosen=chosen, because=chosen.how, others=others)


def _either(program: str | None, found: FoundNccl) -> FoundNccl:
    """Return no choice where releases differ, for a program whose linkage is not known."""
    candidates = [*([found.chosen] if found.chosen else []), *found.others]
    if len({(candidate.library, candidate.version) for candidate in candidates}) == 1:
        return found
    because = f"how {program} is linked decides between these; {WHAT_TELLS}"
    others = tuple(replace(candidate, lost=None) for candidate in candidates)
    return FoundNccl(chosen=None, because=because, others=others)


def _each_once(candidates: Sequence[NcclCandidate]) -> list[NcclCandidate]:
    by_path: dict[str, NcclCandidate] = {}
    for candidate in candidates:
        by_path.setdefault(candidate.path, candidate)
    return list(by_path.values())


def _listed(where: NcclWhere, files: LocalFiles) -> Iterator[NcclCandidate]:
    """Yield the libraries that the environment's lists and the default folders hold."""
    for path in re.split("[ :]+", where.environment.get("LD_PRELOAD", "")):
        if posixpath.basename(path).startswith(_LIBRARIES):
            yield from _at(path, "LD_PRELOAD", files)
    for folder in re.split("[:;]", where.environment.get("LD_LIBRARY_PATH", "")):
        if folder:
            full = posixpath.join(where.workdir or "/", folder).rstrip("/")
            yield from _in_folder(full, "LD_LIBRARY_PATH", files)
    for folder in _DEFAULT_FOLDERS:
        yield from _in_folder(folder, "default folder of the loader", files)


def _in_folder(folder: str, how: str, files: LocalFiles) -> Iterator[NcclCandidate]:
    for name in SONAMES.values():
        yield from _at(f"{folder}/{name}", how, files)


def _at(path: str, how: str, files: LocalFiles) -> Iterator[NcclCandidate]:
    """Yield the library under a path, with the release in its resolved name or of its wheel."""
    real = files.real(path)
    if real is None:
        return
    is_rccl = posixpath.basename(path).startswith("librccl")
    library = CommLibrary.RCCL if is_rccl else CommLibrary.NCCL
    named = _FILE_NAME.fullmatch(posixpath.basename(real))
    site, is_wheel, _ = real.rpartition(_IN_WHEEL)
    if named is None and is_wheel:
        for candidate in _of_packages(_WHEELS[:1], site, site, "wheel", files):
            yield replace(candidate, path=path, how=how, version_from=candidate.how)
            return
    yield NcclCandidate(
        library=library,
        path=path,
        how=how,
        version=NcclVersion.of(named[1]) if named else None,
        version_from="its file name" if named else _NO_RELEASE,
    )


def _of_packages(
    packages: Sequence[_Package], folder: str, root: str, kind: str, files: LocalFiles
) -> Iterator[NcclCandidate]:
    """Yield the libraries of the packages whose metadata lie in a folder.

    Two wheels of NCCL in one folder put their library in the same place, and the last one that
    was installed is there: the release is not known.
    """
    names = files.names(folder)
    for package in packages:
        metadata = [match for name in names if (match := package.metadata.fullmatch(name))]
        releases = {match[1] for match in metadata}
        if not releases:
            continue
        release = releases.pop() if len(releases) == 1 else ""
        yield NcclCandidate(
            library=package.library,
            path=f"{root}/{package.path}",
            how=f"the {kind} {' and '.join(match[0] for match in metadata)}",
            version=NcclVersion.of(release) if release else None,
            version_from="its metadata" if release else "not known: its metadata do not tell it",
        )


def _packages(python: str, where: NcclWhere, files: LocalFiles) -> Iterator[NcclCandidate]:
    """Yield the libraries that wheels and conda packages brought, in the order of imports."""
    for site in _sites(python, where.environment, files):
        yield from _of_packages(_WHEELS, site, site, "wheel", files)
    prefix = _prefix(python)
    yield from _of_packages(_CONDA, f"{prefix}/conda-meta", prefix, "conda package", files)


def _environment_program(where: NcclWhere, files: LocalFiles) -> str | None:
    """Return the job's program where it lies in the bin folder of a Python environment."""
    program = where.program and _on_path((where.program,), where, files)
    if not program:
        return None
    marks = (f"{_prefix(program)}/{name}" for name in ("pyvenv.cfg", "conda-meta"))
    return program if any(files.real(mark) for mark in marks) else None


def _python(where: NcclWhere, program: str | None, files: LocalFiles) -> str | None:
    """Return the interpreter that was named, that of the program's environment, or PATH's."""
    if where.python is not None:
        for path in (f"{where.python}/bin/python3", f"{where.python}/bin/python", where.python):
            if files.real(path) is not None:
                return path
        raise StorageFailed(
            f"{where.python} is not there: it was to be the job's Python",
            hint="name a virtual environment, a conda environment's folder, or an interpreter",
        )
    if program is not None:
        return posixpath.join(posixpath.dirname(program), "python3")
    return _on_path(("python3", "python"), where, files)


def _on_path(names: Sequence[str], where: NcclWhere, files: LocalFiles) -> str | None:
    is_path = "/" in names[0]
    for folder in [""] if is_path else where.environment.get("PATH", "").split(":"):
        for name in names:
            path = posixpath.join(where.workdir or "/", folder, name)
            if files.real(path) is not None:
                return path
    return None


def _sites(python: str, environment: Mapping[str, str], files: LocalFiles) -> dict[str, None]:
    """Return the folders of an interpreter's packages, in the order in which it looks.

    Source: site.py of Python 3.13. What .pth files add is not among them.
    """
    real = files.real(python) or python
    version = _PYTHON.fullmatch(posixpath.basename(real))
    libs = [*(f"{lib}/{version[0]}" for lib in ("lib", "lib64") if version), "lib/python3"]
    config = _pyvenv(_prefix(python), files)
    is_open = config.get("include-system-site-packages", "true").lower() == "true"
    prefixes = [_prefix(python)]
    if is_open:
        home = environment.get("HOME")
        user = environment.get("PYTHONUSERBASE") or (home and f"{home}/.local")
        prefixes += [user] if user and not environment.get("PYTHONNOUSERSITE") else []
        prefixes += [posixpath.dirname(config["home"])] if "home" in config else []
        prefixes.append(_prefix(real))
    sites = [folder for folder in environment.get("PYTHONPATH", "").split(":") if folder]
    for prefix in prefixes:
        # Debian keeps what pip installs apart from what the distribution brings.
        for base in ("/usr/local", "/usr") if prefix == "/usr" else (prefix,):
            for lib in libs:
                sites += [f"{base}/{lib}/{kind}-packages" for kind in ("site", "dist")]
    return dict.fromkeys(sites)


def _pyvenv(prefix: str, files: LocalFiles) -> dict[str, str]:
    text = files.text(f"{prefix}/pyvenv.cfg", _MOST_CFG_BYTES)
    if text is None:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    config = {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}
    return {"include-system-site-packages": "false", **config}


def _prefix(program: str) -> str:
    return posixpath.dirname(posixpath.dirname(program))


def _settings_in_place(where: NcclWhere, found: FoundNccl, files: LocalFiles) -> Already:
    library = found.library or CommLibrary.NCCL
    home = where.account_home
    paths = conf_paths(where.environment, library, found.version, home)
    texts = {path: files.text(path, MOST_CONF_BYTES) for path in paths}
    there = {path: text for path, text in texts.items() if text is not None}
    return already_set(where.environment, there, found.version, library, home, set_by=where.set_by)
