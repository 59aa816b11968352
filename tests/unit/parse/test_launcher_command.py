"""A leading torchrun is read; other launchers in front are refused."""

from __future__ import annotations

import pytest

from hpckit.errors import ConfigError
from hpckit.parse.launcher_command import job_name_of, read_torchrun


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
    read = read_torchrun(words.split())
    assert read is not None
    assert list(read.options) == options
    assert " ".join(read.command) == command


@pytest.mark.parametrize("words", [[], ["python", "torchrun"], ["./train"], ["torchrun.py"]])
def test_no_torchrun_in_front(words: list[str]) -> None:
    """Any other command is left as it is."""
    assert read_torchrun(words) is None


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
        read_torchrun(["torchrun", option, "train.py"])
    assert caught.value.key == "command"
    assert says in str(caught.value.hint)


@pytest.mark.parametrize("option", ["--some-flag", "--no", "-x", "--duplicate"])
def test_an_option_that_nobody_knows(option: str) -> None:
    """Without a table it cannot be told whether the next word is a value or the program."""
    with pytest.raises(ConfigError, match="is not known here") as caught:
        read_torchrun(["torchrun", option, "train.py"])
    assert f"{option}=VALUE" in str(caught.value.hint)


def test_torchrun_by_its_path() -> None:
    """A torchrun named by a path is refused: the environment says which one is meant."""
    with pytest.raises(ConfigError, match="by its path") as caught:
        read_torchrun(["/opt/bin/torchrun", "train.py"])
    assert "environment.venv" in str(caught.value.hint)


@pytest.mark.parametrize("program", ["srun", "mpirun", "mpiexec", "sbatch", "/usr/bin/srun"])
def test_another_launcher_in_front(program: str) -> None:
    """Srun, mpirun and the like in front are refused: hpckit writes them itself."""
    with pytest.raises(ConfigError, match="begins with") as caught:
        read_torchrun([program, "-n", "4", "train"])
    assert caught.value.hint


@pytest.mark.parametrize(
    "words", [["torchrun"], ["torchrun", "--max-restarts", "1"], ["torchrun", "--"]]
)
def test_torchrun_without_a_program(words: list[str]) -> None:
    """Torchrun alone has nothing to run."""
    with pytest.raises(ConfigError, match="nothing to run"):
        read_torchrun(words)


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
