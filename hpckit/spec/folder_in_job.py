"""What the files are called that ranks and samplers leave in the job folder while it runs."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final


PLAN_FILE = "plan.json"
"""What was decided of the job."""
PLACE_FOLDER = "place"
"""Where each start of the job has what follows."""
HOSTS_FILE = "hosts"
"""One node a line in the order of ranks, as many times as it has tasks: SLURM_HOSTFILE."""
NO_ORDER_FILE = "no-order"
"""Why there is no such file though one was wanted, in words."""
WAITING_FILE = "waiting"
"""There until a rank begins, which removes it: that works also where nothing can be written."""
BEGAN_FILE = "began"
"""There once a rank began: then srun has taken the order of nodes."""
LINES_PREFIX = "proof."
"""The beginning of the names of the files of lines, one file a node."""
PROOF_FILE = "proof.json"


_MOST_NAME = 40


def start_of(env: Mapping[str, str]) -> tuple[str, str]:
    """The step that ranks are of, and how often torchrun has started them again, for a file's name.

    mpirun starts ranks on its own node in the environment of the script, elsewhere in a step's:
    they have the name of its run in common, where it gives them one (PMIx, PMIX_NAMESPACE).
    """
    attempt = _count_text(env.get("TORCHELASTIC_RESTART_COUNT", ""))
    if "OMPI_COMM_WORLD_RANK" in env or "MPI_LOCALRANKID" in env:
        name = env.get("PMIX_NAMESPACE", "")[-_MOST_NAME:]
        plain = (char if char.isascii() and char.isalnum() else "_" for char in name)
        return "".join(plain) or "0", attempt
    return _count_text(env.get("SLURM_STEP_ID", "")), attempt


def _count_text(text: str) -> str:
    return text if text.isascii() and text.isdigit() else "0"


def of_start(env: Mapping[str, str], folder: str, name: str) -> str:
    """Return a path in the job folder that is of this start of the job alone."""
    task, count = env.get("SLURM_ARRAY_TASK_ID", ""), env.get("SLURM_RESTART_COUNT", "") or 0
    array = f"array-{task}" if task else ""
    return "/".join(filter(None, (env["HPCKIT_JOB_FOLDER"], folder, array, f"{name}-{count}")))


COMPONENTS_FOLDER = "components"
"""Below a heterogeneous job's folder, one of the same shape for each of its components."""


SERVE_FILE: Final = "serve"
"""The beginning of the name of the file that is there once the job's server answers."""
COMPONENT_END: Final = "end"
"""The beginning of the name of the file that says how a component ended: its code, and `asked`
where it was asked to."""


def component_folder(env: Mapping[str, str], name: str) -> str:
    """Return the folder of a component of the job."""
    return f"{env['HPCKIT_JOB_FOLDER']}/{COMPONENTS_FOLDER}/{name}"


def lines_prefix(start: tuple[str, str]) -> str:
    """The beginning of the names of the files of lines of a step's attempt, one file a node."""
    step, attempt = start
    return f"{LINES_PREFIX}step-{step}.attempt-{attempt}."


# Where the accounts of a job lie:
# `account/[array-<task>/]restart-<n>/` holds what one incarnation of the job left:
# `rank-<n>.ledger`, lines of JSON by each rank's entry, and by each node's sampler
# `node-<name>.samples`, blocks (account/sample_format.py), and `node-<name>.topology.json`, what it
# looks like. docs/reference/account-files.md describes them.
#
# Every rank loads this: neither `re` nor `typing` is worth their time there.


LEDGER_SCHEMA: Final = "hpckit.ledger/1"
ACCOUNT_FOLDER: Final = "account"
SAMPLER_STEP: Final = "hpckit-sampler"
"""What the sampler's step is called in Slurm: it is none of the job's own."""


def account_folder(restart: str, array_task: str = "") -> str:
    """The folder of one incarnation, below the job folder; what is no number counts as absent."""
    number = restart if restart.isascii() and restart.isdigit() else "0"
    task = f"array-{array_task}/" if array_task.isascii() and array_task.isdigit() else ""
    return f"{ACCOUNT_FOLDER}/{task}restart-{number}"


def ledger_file(rank: int) -> str:
    """The name of a rank's ledger."""
    return f"rank-{rank}.ledger"


def samples_file(node: str) -> str:
    """The name of a node's samples; characters that a file name should not have become `_`."""
    return f"node-{_plain(node)}.samples"


def topology_file(node: str) -> str:
    """The name of a node's topology, likewise."""
    return f"node-{_plain(node)}.topology.json"


def restart_of(folder_name: str) -> int | None:
    """The incarnation whose folder is called so, None for any other folder."""
    return _number(folder_name, "restart-")


def array_task_of(folder_name: str) -> int | None:
    """The array task whose folder is called so."""
    return _number(folder_name, "array-")


def rank_of(file_name: str) -> int | None:
    """The rank whose ledger is called so."""
    return _number(file_name, "rank-", ".ledger")


def node_of(file_name: str) -> str | None:
    """The node whose samples are called so."""
    return _node(file_name, ".samples")


def node_of_topology(file_name: str) -> str | None:
    """The node whose topology is called so."""
    return _node(file_name, ".topology.json")


def _plain(node: str) -> str:
    return "".join(char if _is_plain(char) else "_" for char in node)


def _node(file_name: str, after: str) -> str | None:
    name = _between(file_name, "node-", after)
    is_node = name is not None and all(map(_is_plain, name))
    return name if is_node else None


def _number(name: str, before: str, after: str = "") -> int | None:
    digits = _between(name, before, after)
    if digits is None or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def _between(name: str, before: str, after: str) -> str | None:
    if not (name.startswith(before) and name.endswith(after)):
        return None
    return name[len(before) : len(name) - len(after)] or None


def _is_plain(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "_.-")
