"""`deepspeed`: srun starts every rank in the environment that DeepSpeed's own launcher makes.

Source: deepspeed/launcher/runner.py and launch.py, deepspeed/comm/comm.py of DeepSpeed 0.19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hpckit.core.errors import InvalidValue
from hpckit.core.late import regex
from hpckit.script.launchers.launcher import Launcher
from hpckit.script.launchers.options import LauncherOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.script.launchers.launcher import SplitCommand
    from hpckit.spec.job import JobSpec, LaunchRequest


_NODES = "resources.nodes (--nodes); slurm.nodelist and slurm.exclude choose the nodes"
_RANKS = "resources.ntasks_per_node (--ntasks-per-node; default: one per GPU)"
_BY_SRUN = "nothing: srun starts the ranks, without ssh"
_BOUND = "place.bind (on by default)"
DEEPSPEED = LauncherOptions(
    program=("deepspeed",),
    owned={
        **dict.fromkeys(("H", "hostfile", "i", "include", "e", "exclude", "num-nodes"), _NODES),
        **dict.fromkeys(("min-elastic-nodes", "max-elastic-nodes", "elastic-training"), _NODES),
        **dict.fromkeys(("num-gpus", "num-accelerators"), _RANKS),
        **dict.fromkeys(("launcher", "launcher-args", "no-ssh", "no-ssh-check"), _BY_SRUN),
        **dict.fromkeys(("force-multi", "ssh-port", "save-pid", "node-rank"), _BY_SRUN),
        **dict.fromkeys(("log-level", "q", "quiet"), _BY_SRUN),
        **dict.fromkeys(("bind-cores-to-rank", "bind-core-list"), _BOUND),
        "master-addr": "nothing: hpckit uses the first node",
        "master-port": "nothing: hpckit finds a free port",
        "venv-script": "environment.venv or environment.setup",
        "autotuning": "nothing: it would start separate jobs",
        "no-python": "the program itself as the command",
        "enable-each-rank-log": "nothing: each rank has a log (hpckit logs --rank)",
    },
    valued=frozenset(),
    flags=frozenset(["no-local-rank"]),
    as_module=frozenset(["module"]),
)
"""All that deepspeed 0.19 has."""


_PYTHON: Final = regex(r"python[0-9.]*")
_VALUED: Final = frozenset(("-W", "-X", "--check-hash-based-pycs"))
_NAMING: Final = regex(r"-[A-Za-z]*[mc]")
"""What the next word names the program for. Source: python(1)."""


class Deepspeed(Launcher):
    """srun starts one task for each rank; `deepspeed.init_distributed()` reads torch's variables.

    As DeepSpeed's launcher does, it gives each program `--local_rank`, unless `--no_local_rank` is
    said. No hostfile is read and no ssh is used.
    """

    kind = "deepspeed"
    summary = "srun starts every rank as DeepSpeed's launcher would, without ssh"
    local_identity = "env"
    needs_runner = True
    takes_args = True

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return the launcher's options and the program, None where another program is first."""
        return DEEPSPEED.read(words)

    def refuse(self, launch: LaunchRequest) -> None:
        """Raise InvalidValue for another option than the one that is left to say."""
        super().refuse(launch)
        if {word.replace("_", "-") for word in launch.args} - {"--no-local-rank"}:
            raise InvalidValue("args", list(launch.args), "--no_local_rank, or remove it")

    def rank_shell(self, spec: JobSpec) -> str | None:
        """Return the command with `--local_rank` behind the program, before its own words."""
        if spec.launch.args:
            return None
        words = _program_words(spec.command)
        if words is None:
            return 'exec "$@" --local_rank="$LOCAL_RANK"'
        return f'exec "${{@:1:{words}}}" --local_rank="$LOCAL_RANK" "${{@:{words + 1}}}"'

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the ranks of the job: the runner starts each."""
        return spec.ntasks


def _program_words(command: Sequence[str]) -> int | None:
    """Return how many words name a Python program: `python3 -u train.py`, `python3 -m pack.train`.

    None for any other command, whose own words nobody here can tell from the program's.
    """
    if not _PYTHON.fullmatch(command[0].rpartition("/")[2]):
        return None
    takes_next = False
    for count, word in enumerate(command[1:], start=2):
        if takes_next:
            takes_next = False
        elif not word.startswith("-"):
            return count
        elif word in _VALUED:
            takes_next = True
        elif _NAMING.fullmatch(word):
            return count + 1
    return None
