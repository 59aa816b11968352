"""The environment of a job, in its container too, and what NCCL's files set besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hpckit.app.library_found import LibraryLookup
from hpckit.errors import StorageFailed
from hpckit.model.comm import CommLibrary
from hpckit.model.comm_already import Already
from hpckit.model.nccl_found import FoundNccl, NcclWhere
from hpckit.parse.container_environment import (
    APPTAINER_FOLDER,
    ENROOT_FILE,
    parse_apptainer_environment,
    parse_enroot_environment,
)
from hpckit.parse.nccl_conf import MOST_CONF_BYTES, already_set, conf_paths
from hpckit.tune_ports import LibraryFiles, NcclLibraries

_MOST_ENVIRONMENT_BYTES: Final = 1024**2
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONTAINER: Final = "the container's environment"
_GIVEN_PREFIXES: Final = ("SINGULARITYENV_", "APPTAINERENV_")


def job_environment(where: NcclWhere, files: LibraryFiles) -> Mapping[str, str]:
    """The environment in which the job's programs start.

    In a container the image's own values count before the job's. PATH is the image's alone, and in
    one of apptainer LD_LIBRARY_PATH, too, where APPTAINERENV_ variables count before all. Sources:
    enroot doc/image-format.md, pyxis README ("environment variables"), apptainer user guide
    ("Environment and Metadata"). Raises as `files` does.
    """
    if where.container is None:
        return where.environment
    scripts = [name for name in files.names(APPTAINER_FOLDER) if name.endswith(".sh")]
    made = {**where.environment, "PATH": _PATH}
    if not scripts:
        data = files.data(ENROOT_FILE, _MOST_ENVIRONMENT_BYTES) or b""
        return {**made, **parse_enroot_environment(data.decode("utf-8", "surrogateescape"))}
    made.pop("LD_LIBRARY_PATH", None)
    for name in scripts:
        data = files.data(f"{APPTAINER_FOLDER}/{name}", _MOST_ENVIRONMENT_BYTES) or b""
        made.update(parse_apptainer_environment(data.decode("utf-8", "surrogateescape")))
    for prefix in _GIVEN_PREFIXES:
        for name, value in where.environment.items():
            if name.startswith(prefix):
                made[name.removeprefix(prefix)] = value
    return made


def settings_in_place(
    where: NcclWhere,
    environment: Mapping[str, str],
    found: FoundNccl,
    lookup: LibraryLookup,
    tools: NcclLibraries,
) -> Already:
    """What is set for the library that was found.

    A user's file that a container lacks is looked for on this machine, as a home folder is often
    mounted into containers; a note says so.
    """
    library = found.library or where.library or CommLibrary.NCCL
    paths = conf_paths(environment, library, found.version, where.account_home)
    texts = {path: lookup.text(path, MOST_CONF_BYTES) for path in paths}
    notes = []
    if where.container is not None and len(paths) > 1 and texts[paths[0]] is None:
        texts[paths[0]] = _on_this_machine(paths[0], tools)
        if texts[paths[0]] is not None:
            notes.append(f"{paths[0]} counts only if it is mounted into the container")
    there = {path: text for path, text in texts.items() if text is not None}
    already = already_set(
        environment,
        there,
        found.version,
        library,
        where.account_home,
        set_by=_setters(where, environment),
    )
    return replace(already, notes=(*notes, *already.notes))


def _setters(where: NcclWhere, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Who set a variable, where the shell did not: a key of the job, or the container."""
    own = {name for name, value in environment.items() if where.environment.get(name) != value}
    return {**where.set_by, **dict.fromkeys(own, _CONTAINER)}


def _on_this_machine(path: str, tools: NcclLibraries) -> str | None:
    with tools.opened(None) as files:
        try:
            data = files.data(path, MOST_CONF_BYTES)
        except StorageFailed:
            return None
    return None if data is None else data.decode("utf-8", "surrogateescape")
