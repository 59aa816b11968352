"""A rank at its place: it binds itself, leaves a line of what it sees, and rank 0 compares.

It never fails the job, unless that was asked for (HPCKIT_STRICT).
"""

from __future__ import annotations

import os

from hpckit.core.files_in_job import make_folders
from hpckit.core.identity import seen_by_mpi
from hpckit.core.talk import json_text, reason, say
from hpckit.spec.folder_in_job import BEGAN_FILE, WAITING_FILE, lines_prefix, start_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from hpckit.core.identity import Identity


_WATCHED = ("MASTER_ADDR", "MASTER_PORT", "CUDA_DEVICE_ORDER", "HSA_", "NCCL_", "RCCL_", "UCX_")
"""Names, or their beginnings, of variables that have to be the same on all ranks."""
_INSIDE_OWN = ("MASTER_", "LD_LIBRARY_PATH")


def place(env: dict[str, str], identity: Identity, log: int | None) -> dict[str, str]:
    """Bind this rank where HPCKIT_BIND asks for it, and give the command's environment.

    With HPCKIT_STRICT every rank ends here, with code 1, unless all are where they were planned.
    """
    folder, is_strict = env["HPCKIT_PLACE"], env.get("HPCKIT_STRICT") == "1"
    local_rank, ranks = identity.local_rank or 0, identity.local_world_size or 1
    planned: Mapping[str, Any] = {}
    lost = _lost(env)
    try:
        make_folders(folder)
        if local_rank == 0:
            _say_begun(folder)
        if env.get("HPCKIT_BIND") == "1" and ranks > 1:
            from hpckit.binding.affinity import bind_rank

            env, planned = bind_rank(env, local_rank, ranks, log)
            env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **env}
        _leave(folder, start_of(env), {**_seen(env, identity, planned), "lost": lost})
        _compare(env, identity, log, is_strict=is_strict)
    except OSError as error:
        why = f"{error.filename or folder}: {reason(error)}"
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        why = f"{type(error).__name__}: {error}"
    else:
        return env
    why = f"cannot verify the placement of this rank: {why}"
    if is_strict:
        say(f"--strict-placement ends the job: {why}", log)
        raise SystemExit(1)
    say(f"warning: {why}", log)
    return env


def outside(env: Mapping[str, str], let_in: Iterable[str]) -> str:
    """Return the variables that ranks in a container have to find, as JSON.

    Those of communication, and the names in `let_in`. Where ranks meet a launcher inside may say
    otherwise, and Apptainer adds to the path of libraries.
    """
    names = sorted({name for name in (*_watched(env), *let_in) if not name.startswith(_INSIDE_OWN)})
    return json_text({name: env[name] for name in names if name in env})


def _lost(env: dict[str, str]) -> list[str] | None:
    """Return what is otherwise inside this container than outside; None where ranks run in none."""
    if not env.get("HPCKIT_OUTSIDE"):
        return None
    import json

    planned: dict[str, str] = json.loads(env["HPCKIT_OUTSIDE"])
    return [
        f"{name}={env.get(name)} in the container, {value} outside"
        for name, value in planned.items()
        if env.get(name) != value
    ]


def _watched(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(env.items()) if name.startswith(_WATCHED)}


def begin(folder: str) -> None:
    """Say that a rank began, or a launcher of ranks, as well as that can be said."""
    try:
        make_folders(folder)
        _say_begun(folder)
    except OSError as error:
        say(f"warning: {folder}: {reason(error)}")


def _say_begun(folder: str) -> None:
    # Where the disk is full a file can be removed still.
    try:  # noqa: SIM105  contextlib would cost each rank its loading
        os.unlink(f"{folder}/{WAITING_FILE}")
    except OSError:
        pass
    flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
    os.close(os.open(f"{folder}/{BEGAN_FILE}", flags, 0o600))


def _compare(env: dict[str, str], identity: Identity, log: int | None, *, is_strict: bool) -> None:
    if identity.rank == 0:
        from hpckit.binding.proof import prove

        prove(env, identity.world_size or 1, log)
    elif is_strict:
        from hpckit.binding.proof import await_proof

        await_proof(env, identity.world_size or 1, log)


def _seen(env: dict[str, str], identity: Identity, planned: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rank": identity.rank,
        "local_rank": identity.local_rank,
        "local_world_size": identity.local_world_size,
        "world_size": identity.world_size,
        "mpi": seen_by_mpi(env),
        "node": env.get("SLURMD_NODENAME") or os.uname().nodename,
        "cpus": _listed(os.sched_getaffinity(0)),
        "planned_cpus": planned.get("cpus"),
        "shared": planned.get("unbound"),
        "failed": planned.get("failed"),
        "planned_gpus": [gpu["uuid"] or gpu["pci"] for gpu in planned.get("gpus", ())],
        "visible": env.get("CUDA_VISIBLE_DEVICES") or env.get("ROCR_VISIBLE_DEVICES"),
        "planned_nics": planned.get("nics") or [],
        "env": _watched(env),
    }


def _listed(cpus: set[int]) -> str:
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in spans)


def _leave(folder: str, start: tuple[str, str], record: dict[str, Any]) -> None:
    """Append a line to the file of this node: ranks of one node share a client of the storage."""
    node = "".join(char if char.isalnum() or char in "-._" else "_" for char in record["node"])
    path = f"{folder}/{lines_prefix(start)}{node[:200]}.jsonl"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, (json_text(record) + "\n").encode("ascii"))
    finally:
        os.close(fd)
