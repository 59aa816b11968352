"""The launchers: torchrun in front of a command, and a kind that is added."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpckit.core.errors import ConfigError
from hpckit.core.identity import identify
from hpckit.script.launchers.launcher import Launcher, SplitCommand
from hpckit.script.launchers.registry import LAUNCHERS, job_name_of, launchers_of, read_launchers
from hpckit.script.launchers.torchrun import Torchrun
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import option_layer
from tests.fakes.prepared import prepared


@pytest.mark.parametrize(
    ("words", "options", "command"),
    [
        ("torchrun train.py --lr 1", [], "python3 train.py --lr 1"),
        ("torchrun -m pkg.train --nnodes 3", [], "python3 -m pkg.train --nnodes 3"),
        ("torchrun --module pkg.train", [], "python3 -m pkg.train"),
        ("torchrun --max-restarts 2 train.py", ["--max-restarts=2"], "python3 train.py"),
        ("torchrun --max_restarts=2 train.py", ["--max_restarts=2"], "python3 train.py"),
        ("torchrun --max_restarts 2 train.py", ["--max-restarts=2"], "python3 train.py"),
        ("torchrun -r 3 -t=1 train.py", ["-r=3", "-t=1"], "python3 train.py"),
        ("torchrun --new=1 train.py", ["--new=1"], "python3 train.py"),
        ("torchrun --virtual-local-rank t.py", ["--virtual-local-rank"], "python3 t.py"),
        ("torchrun --shutdown-timeout 9 t.py", ["--shutdown-timeout=9"], "python3 t.py"),
        ("torchrun --max 2 train.py", ["--max-restarts=2"], "python3 train.py"),
        ("torchrun -r3 -t0:1 train.py", ["-r3", "-t0:1"], "python3 train.py"),
        ("torchrun --mod pkg.train", [], "python3 -m pkg.train"),
        ("torchrun -- train.py -x", [], "python3 train.py -x"),
    ],
)
def test_torchrun_in_front(words: str, options: list[str], command: str) -> None:
    """Torchrun's own options are kept apart from what each rank runs."""
    read = Torchrun().read_command(words.split())
    assert read is not None
    assert list(read.options) == options
    assert " ".join(read.command) == command


@pytest.mark.parametrize("words", [[], ["python", "torchrun"], ["./train"], ["torchrun.py"]])
def test_no_torchrun_in_front(words: list[str]) -> None:
    """Any other command is left as it is."""
    assert Torchrun().read_command(words) is None


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--nnodes=2", "resources.nodes (--nodes)"),
        ("--nproc=2", "resources.ntasks_per_node"),
        ("--nproc-per-node", "resources.ntasks_per_node"),
        ("--nproc_per_node=8", "resources.ntasks_per_node"),
        ("--node-rank=0", "SLURM_PROCID"),
        ("--node_rank", "SLURM_PROCID"),
        ("--master-addr=x", "first node"),
        ("--master_port=1", "free ports"),
        ("--rdzv-endpoint=x:1", "rendezvous"),
        ("--rdzv_backend=c10d", "rendezvous"),
        ("--standalone", "one node"),
        ("--no-python", "the program itself"),
        ("--run-path", "runpy"),
    ],
)
def test_what_hpckit_writes_itself(option: str, says: str) -> None:
    """An option that the launch decides is refused, and its key is named."""
    with pytest.raises(ConfigError, match="is hpckit's to write") as caught:
        Torchrun().read_command(["torchrun", option, "train.py"])
    assert caught.value.key == "command"
    assert says in str(caught.value.hint)


@pytest.mark.parametrize("option", ["--some-flag", "--no", "-x", "--duplicate"])
def test_an_option_that_nobody_knows(option: str) -> None:
    """Without a table it cannot be told whether the next word is a value or the program."""
    with pytest.raises(ConfigError, match="is not known here") as caught:
        Torchrun().read_command(["torchrun", option, "train.py"])
    assert f"{option}=VALUE" in str(caught.value.hint)


def test_torchrun_by_its_path() -> None:
    """A torchrun named by a path is refused: the environment says which one is meant."""
    with pytest.raises(ConfigError, match="by its path") as caught:
        Torchrun().read_command(["/opt/bin/torchrun", "train.py"])
    assert "environment.venv" in str(caught.value.hint)


@pytest.mark.parametrize(
    "words", [["torchrun"], ["torchrun", "--max-restarts", "1"], ["torchrun", "--"]]
)
def test_torchrun_without_a_program(words: list[str]) -> None:
    """Torchrun alone has nothing to run."""
    with pytest.raises(ConfigError, match="nothing to run"):
        Torchrun().read_command(words)


class Horovod(Launcher):
    """A kind that this test adds: srun starts its ranks, which know themselves by other names."""

    kind = "horovod"
    summary = "a launcher of a test"
    identity = "HOROVOD_RANK,HOROVOD_SIZE,HOROVOD_LOCAL_RANK,HOROVOD_LOCAL_SIZE,"
    can_renumber = False

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return what stands behind horovodrun."""
        if words[:1] != ["horovodrun"]:
            return None
        return SplitCommand(options=(), command=tuple(words[1:]))

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return a shim with the number of ranks."""
        return ("horovod-shim", f"-np={spec.ntasks}")


def test_a_kind_is_added_by_its_module_alone() -> None:
    """Given to the registry, it is read from a command, checked, planned and rendered."""
    launchers = launchers_of(*LAUNCHERS.values(), Horovod())
    words = ("horovodrun", "python", "train.py")
    options = {"resources.nodes": 2, "resources.ntasks_per_node": 4}
    job = prepared(command=words, options=options, launchers=launchers)
    assert job.effective.spec.launch.kind == "horovod"
    script = job.script.text
    assert 'horovod-shim -np=8 "${hpckit_rank[@]}" \\\n  python train.py\n' in script
    assert "run --order --keep-numbers --bind --measure 1 --" in script
    assert f"rank --from {Horovod.identity} --" in script
    env = {"HOROVOD_RANK": "5", "HOROVOD_SIZE": "8", "HOROVOD_LOCAL_RANK": "1"}
    found = identify(Horovod.identity, {**env, "HOROVOD_LOCAL_SIZE": "4"})
    assert (found.rank, found.world_size, found.local_rank, found.node_rank) == (5, 8, 1, None)
    with pytest.raises(ConfigError, match=r"expected one of: plain, mpi, torchrun$"):
        prepared(command=words[1:], options={"launch.kind": "horovod"})


@pytest.mark.parametrize("program", ["srun", "mpirun", "mpiexec", "sbatch", "/usr/bin/srun"])
def test_another_launcher_in_front(program: str) -> None:
    """Srun, mpirun and the like in front are refused: hpckit writes them itself."""
    layer = option_layer({"command": ([program, "-n", "4", "train"], "--")})
    with pytest.raises(ConfigError, match="begins with") as caught:
        read_launchers([layer])
    assert caught.value.hint


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "job"),
        (["python", "train.py", "--x"], "train"),
        (["python", "-u", "/a/b/run.sh"], "run"),
        (["./a.out"], "a.out"),
        (["/"], "job"),
        (["bash", "-c", "x"], "bash"),
        (["x", ".py"], "x"),
    ],
)
def test_the_name_of_a_command(words: list[str], name: str) -> None:
    """A job without a name is called after its script, else its program."""
    assert job_name_of(words) == name
