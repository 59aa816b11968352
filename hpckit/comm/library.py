"""Which NCCL or RCCL a job will load, by package metadata and file names: no library is opened."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hpckit.comm.library_search import FoundNccl, NcclCandidate, NcclWhere
from hpckit.comm.nccl_conf import MOST_CONF_BYTES, Already, already_set, conf_paths
from hpckit.core.errors import StorageFailed
from hpckit.core.late import regex
from hpckit.slurm.values import JobEntry
from hpckit.spec.folder_in_job import ACCOUNT_FOLDER, ledger_file, restart_of
from hpckit.spec.platform import CommLibrary, NcclVersion

if TYPE_CHECKING:
    from hpckit.core.files import LocalFiles

SONAMES: Final = {CommLibrary.NCCL: "libnccl.so.2", CommLibrary.RCCL: "librccl.so.1"}
"""Under which a program asks for them: NCCL's src/Makefile, RCCL's CMakeLists.txt."""

WHAT_TELLS: Final = "give the release with --nccl, or nccl under [tune] in the job file"

_DEFAULT_FOLDERS: Final = (
    *(f"{usr}/lib/{cpu}-linux-gnu" for cpu in ("x86_64", "aarch64") for usr in ("", "/usr")),
    *("/lib64", "/usr/lib64"),
)
"""Of the loader, on Debian and on all others. Source: ld.so --help."""
_FILE_NAME: Final = regex(r"libnccl\.so\.(\d+\.\d+\.\d+)", re.ASCII)
_IS_OPEN: Final = regex(r"^include-system-site-packages\s*=\s*true\s*$", re.I | re.MULTILINE)
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
    torch 2.15 and jax-cuda12-pjrt 0.12). Raises StorageFailed where the Python that was named is
    not there.
    """
    candidates = (*_packages(where, files), *_listed(where, files))
    by_path: dict[str, NcclCandidate] = {}
    for candidate in candidates:
        by_path.setdefault(candidate.path, candidate)
    found = _verdict(tuple(by_path.values()))
    library, home = found.library or CommLibrary.NCCL, where.account_home
    paths = conf_paths(where.environment, library, found.version, home)
    texts = {path: files.text(path, MOST_CONF_BYTES) for path in paths}
    there = {path: text for path, text in texts.items() if text is not None}
    already = already_set(where.environment, there, found.version, library, set_by=where.set_by)
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
                candidate = _of_record(
                    line, f"rank 0 of job {job.job_id}, the latest with this name"
                )
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
        version_from="the library that it loaded",
    )


def _verdict(candidates: Sequence[NcclCandidate]) -> FoundNccl:
    if not candidates:
        names = " or ".join(SONAMES.values())
        because = (
            f"no NCCL package in the job's Python, and no {names} on LD_LIBRARY_PATH or in the"
            f" loader's default folders; {WHAT_TELLS}"
        )
        return FoundNccl(chosen=None, because=because)
    chosen, *rest = candidates
    others = tuple(replace(other, lost=f"{chosen.how} comes first") for other in rest)
    return FoundNccl(chosen=chosen, because=chosen.how, others=others)


def _listed(where: NcclWhere, files: LocalFiles) -> Iterator[NcclCandidate]:
    """Yield the libraries in the folders of LD_LIBRARY_PATH, and in the loader's own."""
    named = re.split("[:;]", where.environment.get("LD_LIBRARY_PATH", ""))
    folders = [(posixpath.join(where.workdir or "/", folder), True) for folder in named if folder]
    folders += [(folder, False) for folder in _DEFAULT_FOLDERS]
    for folder, is_listed in folders:
        for library, name in SONAMES.items():
            path = f"{folder.rstrip('/')}/{name}"
            real = files.real(path)
            if real is None:
                continue
            named_so = _FILE_NAME.fullmatch(posixpath.basename(real))
            yield NcclCandidate(
                library=library,
                path=path,
                how="LD_LIBRARY_PATH" if is_listed else "the loader's default folder",
                version=NcclVersion.of(named_so[1]) if named_so else None,
                version_from=(
                    "its file name" if named_so else "unknown: its file name has no release"
                ),
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
            version_from="its metadata" if release else "unknown: its metadata have no release",
        )


def _packages(where: NcclWhere, files: LocalFiles) -> Iterator[NcclCandidate]:
    """Yield the libraries that wheels and conda packages brought, in the order of imports."""
    python = _python(where, files)
    if python is None:
        return
    for site in _sites(python, where, files):
        yield from _of_packages(_WHEELS, site, site, "wheel", files)
    prefix = _prefix(python)
    yield from _of_packages(_CONDA, f"{prefix}/conda-meta", prefix, "conda package", files)


def _python(where: NcclWhere, files: LocalFiles) -> str | None:
    """Return the interpreter that was named, else the first on PATH."""
    if where.python is not None:
        paths = [f"{where.python}/bin/python3", f"{where.python}/bin/python", where.python]
    else:
        folders = where.environment.get("PATH", "").split(":")
        paths = [f"{folder}/{name}" for folder in folders for name in ("python3", "python")]
    found = next((path for path in paths if files.real(path) is not None), None)
    if found is None and where.python is not None:
        raise StorageFailed(
            f"the job's Python is missing: {where.python}",
            hint="give a virtual environment, a conda environment's folder, or an interpreter",
        )
    return found


def _sites(python: str, where: NcclWhere, files: LocalFiles) -> dict[str, None]:
    """Return the folders of an interpreter's packages, in the order in which it looks.

    A virtual environment shows the user's own packages and those below it where its pyvenv.cfg
    says so. Source: site.py of Python 3.13. What .pth files add is not among them.
    """
    environment, real = where.environment, files.real(python) or python
    config = files.text(f"{_prefix(python)}/pyvenv.cfg", _MOST_CFG_BYTES)
    prefixes = [_prefix(python)]
    if config is None or _IS_OPEN.search(config):
        home = environment.get("HOME")
        user = environment.get("PYTHONUSERBASE") or (home and f"{home}/.local")
        prefixes += [user] if user and not environment.get("PYTHONNOUSERSITE") else []
        # Debian keeps what pip installs apart from what the distribution brings.
        prefixes += ["/usr/local"] if _prefix(real) == "/usr" else []
        prefixes.append(_prefix(real))
    sites = [folder for folder in environment.get("PYTHONPATH", "").split(":") if folder]
    for prefix in prefixes:
        for lib in ("lib", "lib64"):
            packages = f"{prefix}/{lib}/{posixpath.basename(real)}"
            sites += [f"{packages}/{kind}-packages" for kind in ("site", "dist")]
    return dict.fromkeys(sites)


def _prefix(program: str) -> str:
    return posixpath.dirname(posixpath.dirname(program))
