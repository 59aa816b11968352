"""Which of the GPUs of its node a rank has to itself, as far as its environment tells."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.injob.identity import Identity

_NONE_VISIBLE = ("", "-1", "NoDevFiles")  # the last is what Slurm sets for a task without GPUs
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_SLURMS = (
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
)


class Claim:
    """The GPUs of a rank, by their places in the list of those it may open, and why these."""

    __slots__ = ("places", "why")

    def __init__(self, why: str, places: list[int]) -> None:
        """Take the words of hpckit.model.ledger: visible, local-rank, all, none."""
        self.why = why
        self.places = places


def visible_devices(env: dict[str, str]) -> str | None:
    """What narrows down the GPUs that a rank sees, as it stands; None where nothing does."""
    for name in _VARIABLES:
        if name in env:
            return env[name]
    return None


def may_have_gpus(env: dict[str, str]) -> bool:
    """Whether GPUs that this process may open can be a rank's.

    Slurm names those of a job that was given any, in one way or another: the node's GPUs are not
    those of a job without them, though where ConstrainDevices is not set it may open them all.
    Source: srun(1) and sbatch(1), OUTPUT ENVIRONMENT VARIABLES.
    """
    if "SLURM_JOB_ID" not in env or visible_devices(env) is not None:
        return True
    return any(env.get(name) for name in _SLURMS)


def claim(uuids: list[str], visible: str | None, env: dict[str, str], identity: Identity) -> Claim:
    """Which of the GPUs with these UUIDs, in the driver's order, are this rank's own.

    `visible` is as `visible_devices` gives it, or the driver with slices as the GPUs they are of.
    A rank that sees one has that one. Slurm's list of the step's GPUs tells whether the rank sees
    fewer than its step has, so that they are its own. Of GPUs that all ranks of the node see each
    takes an equal share in the order of LOCAL_RANK. Otherwise they cannot be told apart.
    """
    seen = _seen(uuids, visible)
    if not seen:
        return Claim("none", [])
    in_step = len([word for word in env.get("SLURM_STEP_GPUS", "").split(",") if word])
    if len(seen) == 1 or len(seen) < in_step:
        return Claim("visible", seen)
    ranks, local = identity.local_world_size, identity.local_rank
    if ranks and local is not None and local < ranks and len(seen) % ranks == 0:
        share = len(seen) // ranks
        return Claim("local-rank", seen[local * share : (local + 1) * share])
    return Claim("all", seen)


def _seen(uuids: list[str], visible: str | None) -> list[int]:
    """Places of the GPUs that a program sees; at the first word that names none it stops.

    Source: CUDA C++ Programming Guide, CUDA Environment Variables.
    """
    if visible is None:
        return list(range(len(uuids)))
    seen: list[int] = []
    if visible in _NONE_VISIBLE:
        return seen
    for word in visible.split(","):
        place = _place(uuids, word.strip())
        if place is None:
            break
        if place not in seen:
            seen.append(place)
    return seen


def _place(uuids: list[str], word: str) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    # MIG-GPU-<uuid>/<instance>/<instance>: a slice of that GPU, as drivers before 470 name it.
    wanted = word.removeprefix("MIG-").partition("/")[0].lower()
    if not wanted.startswith("gpu-"):
        return None
    # The beginning of a UUID will do, if it is that of one GPU alone.
    matching = [place for place, uuid in enumerate(uuids) if uuid.lower().startswith(wanted)]
    return matching[0] if len(matching) == 1 else None
