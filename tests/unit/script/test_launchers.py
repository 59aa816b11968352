"""The launchers: torchrun in front of a command, and a kind that is added."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.identity import identify
from hpckit.script.launchers.accelerate import _MULTI
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
        ("--master_port=1", "a free port"),
        ("--rdzv-endpoint=x:1", "rendezvous"),
        ("--rdzv_backend=c10d", "rendezvous"),
        ("--standalone", "one node"),
        ("--no-python", "the program itself"),
        ("--run-path", "runpy"),
    ],
)
def test_what_hpckit_writes_itself(option: str, says: str) -> None:
    """An option that the launch decides is refused, and its key is named."""
    with pytest.raises(ConfigError, match="hpckit itself sets") as caught:
        Torchrun().read_command(["torchrun", option, "train.py"])
    assert caught.value.key == "command"
    assert says in str(caught.value.hint)


@pytest.mark.parametrize("option", ["--some-flag", "--no", "-x", "--duplicate"])
def test_an_option_that_nobody_knows(option: str) -> None:
    """Without a table it cannot be told whether the next word is a value or the program."""
    with pytest.raises(ConfigError, match="unknown option") as caught:
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
    with pytest.raises(ConfigError, match="no program to run"):
        Torchrun().read_command(words)


@pytest.mark.parametrize(
    ("words", "kind", "args", "command"),
    [
        ("accelerate launch train.py --x", "accelerate", [], "python3 train.py --x"),
        ("accelerate launch -m pkg.t", "accelerate", [], "python3 -m pkg.t"),
        (
            "accelerate launch --use_fsdp --fsdp_version 2 train.py",
            "accelerate",
            ["--use_fsdp", "--fsdp-version=2"],
            "python3 train.py",
        ),
        (
            "accelerate launch --megatron_lm_tp_degree 4 train.py",
            "accelerate",
            ["--megatron-lm-tp-degree=4"],
            "python3 train.py",
        ),
        ("deepspeed train.py --deepspeed", "deepspeed", [], "python3 train.py --deepspeed"),
        ("deepspeed --module pkg.t", "deepspeed", [], "python3 -m pkg.t"),
        ("deepspeed --no_local_rank t.py", "deepspeed", ["--no_local_rank"], "python3 t.py"),
    ],
)
def test_a_launcher_in_front(words: str, kind: str, args: list[str], command: str) -> None:
    """Of each launcher its own options are kept, and its name says the kind."""
    job = prepared(command=tuple(words.split())).effective.spec
    assert (job.launch.kind, list(job.launch.args)) == (kind, args)
    assert " ".join(job.command) == command


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("accelerate launch --num_processes 8 t.py", "resources.ntasks_per_node"),
        ("accelerate launch --machine_rank 0 t.py", "SLURM_PROCID"),
        ("accelerate launch --deepspeed_hostfile h t.py", "without ssh"),
        ("deepspeed --hostfile h t.py", "resources.nodes"),
        ("deepspeed -i worker-0 t.py", "resources.nodes"),
        ("deepspeed --num_gpus=8 t.py", "resources.ntasks_per_node"),
        ("deepspeed --launcher pdsh t.py", "without ssh"),
        ("deepspeed --master_port 1 t.py", "a free port"),
    ],
)
def test_what_hpckit_writes_for_other_launchers(words: str, says: str) -> None:
    """Hosts, counts and the meeting place are the job file's, and the key is named."""
    with pytest.raises(ConfigError, match="hpckit itself sets") as caught:
        prepared(command=tuple(words.split()))
    assert says in str(caught.value.hint)


EIGHT = {"resources.nodes": 2, "resources.gpus_per_node": 8}


def launched(kind: str, **options: object) -> str:
    """The last lines of the script of a kind on two nodes of eight GPUs."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    job = prepared(command=("./train",), options={**EIGHT, "launch.kind": kind, **named})
    return job.script.text.rpartition('"${hpckit_run[@]}"')[2]


def test_jax_has_its_coordinator_and_its_gpus() -> None:
    """The first node at a free port; a rank's share of the node's GPUs, and none without GPUs."""
    one_each, pairs = launched("jax"), launched("jax", resources__ntasks_per_node=4)
    assert 'JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"' in one_each
    assert 'JAX_LOCAL_DEVICE_IDS="${LOCAL_RANK:-$SLURM_LOCALID}" exec "$@"' in one_each
    at = "${LOCAL_RANK:-$SLURM_LOCALID}"
    assert f"$(seq -s, $(({at} * 2)) $(({at} * 2 + 1)))" in pairs
    assert "DEVICE_IDS" not in launched("jax", resources__gpus_per_node=0)
    with pytest.raises(PlanError, match="cannot be shared out"):
        launched("jax", resources__ntasks_per_node=3)


def test_a_program_of_deepspeed_gets_its_local_rank() -> None:
    """As its own launcher gives it, before the program's own words, unless that is not wanted."""
    for command, words in (
        (("python3", "-u", "train.py", "tune", "--lr", "1"), 3),
        (("python", "-m", "pack.train", "tune"), 3),
        (("python3", "-X", "dev", "-W", "ignore", "t.py", "tune"), 6),
        (("python3", "-um", "pack.train", "tune"), 3),
    ):
        script = prepared(command=command, options={"launch.kind": "deepspeed"}).script.text
        assert f'exec "${{@:1:{words}}}" --local_rank="$LOCAL_RANK" "${{@:{words + 1}}}"' in script
    for other in (("./train", "tune"), ("env", "A=1", "python3", "t.py")):
        script = prepared(command=other, options={"launch.kind": "deepspeed"}).script.text
        assert 'exec "$@" --local_rank="$LOCAL_RANK"' in script
    assert "local_rank" not in launched("deepspeed", launch__args=["--no_local_rank"])
    with pytest.raises(ConfigError, match="--no_local_rank, or remove it"):
        launched("deepspeed", launch__args=["--foo"])


def test_accelerate_starts_as_many_as_were_planned() -> None:
    """Several processes need a kind: what the job says, else --multi_gpu."""
    assert "--num_machines=2 --num_processes=16 " in launched("accelerate")
    assert '|| set -- --multi_gpu "$@"; ' in launched("accelerate")
    assert "--multi_gpu" not in launched("accelerate", launch__args=["--use_fsdp"])
    assert "--multi_gpu" not in launched("accelerate", launch__args=["--config_file=a.yaml"])
    alone = launched("accelerate", resources__nodes=1, resources__gpus_per_node=1)
    assert "export RANK=0 WORLD_SIZE=1" in alone
    assert "--multi_gpu" not in alone


@pytest.mark.parametrize("kind", ["NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM", None])
def test_what_accelerate_config_has_written_stays(kind: str | None, tmp_path: Path) -> None:
    """--multi_gpu on the command line would turn its FSDP, DeepSpeed or Megatron-LM off."""
    (tmp_path / "accelerate").mkdir()
    if kind is not None:
        text = f"compute_environment: LOCAL_MACHINE\ndistributed_type: {kind}\n"
        (tmp_path / "accelerate" / "default_config.yaml").write_text(text)
    argv = ["bash", "-c", f'{_MULTI} echo "$@"', "accelerate", "--num_machines=2"]
    shown = subprocess.run(
        argv, env={"HF_HOME": str(tmp_path), "PATH": os.environ["PATH"]}, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert ("--multi_gpu" in shown) == (kind in ("NO", "MULTI_GPU", None))


@pytest.mark.parametrize("kind", ["torchrun", "accelerate"])
def test_a_signal_that_the_launcher_dies_of_is_refused(kind: str) -> None:
    """Neither hands USR1 on to its ranks."""
    with pytest.raises(PlanError, match=f"slurm.signal kills {kind}"):
        launched(kind, slurm__signal="USR1@300")


def test_a_worker_of_tensorflow_has_the_gpus_of_its_node() -> None:
    """One a node unless said; several would each take all of them."""
    assert " --ntasks-per-node=1 " in launched("tensorflow")
    with pytest.raises(PlanError, match="uses all GPUs of its node"):
        launched("tensorflow", resources__ntasks_per_node=8)


def test_what_needs_the_runner_does_not_start_without() -> None:
    """Workers of TensorFlow and nodes of Ray cannot find each other by themselves."""
    for kind, option in (("tensorflow", "--tf-config"), ("ray", "--ray")):
        script = prepared(command=("./train",), options={"launch.kind": kind}).script.text
        assert f"rank --from slurm {option} --)" in script
        assert "the command was not started" in script
    with pytest.raises(PlanError, match="once per node"):
        launched("ray", resources__ntasks_per_node=2)


@pytest.mark.parametrize("kind", ["torchrun", "accelerate"])
def test_an_mpi_plugin_is_for_ranks_that_srun_starts(kind: str) -> None:
    """The ranks of a launcher are no tasks of srun."""
    with pytest.raises(ConfigError, match=r"a launch\.kind whose ranks srun starts"):
        launched(kind, launch__mpi="pmix")


class Another(Launcher):
    """A kind that this test adds: srun starts its ranks, which know themselves by other names."""

    kind = "another"
    summary = "a launcher of a test"
    identity = "HOROVOD_RANK,HOROVOD_SIZE,HOROVOD_LOCAL_RANK,HOROVOD_LOCAL_SIZE,"
    can_renumber = False

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return what stands behind starter."""
        if words[:1] != ["starter"]:
            return None
        return SplitCommand(options=(), command=tuple(words[1:]))

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return a shim with the number of ranks."""
        return ("another-shim", f"-np={spec.ntasks}")


def test_a_kind_is_added_by_its_module_alone() -> None:
    """Given to the registry, it is read from a command, checked, planned and rendered."""
    launchers = launchers_of(*LAUNCHERS.values(), Another())
    words = ("starter", "python", "train.py")
    options = {"resources.nodes": 2, "resources.ntasks_per_node": 4}
    job = prepared(command=words, options=options, launchers=launchers)
    assert job.effective.spec.launch.kind == "another"
    script = job.script.text
    assert 'another-shim -np=8 "${hpckit_rank[@]}" \\\n  python train.py\n' in script
    assert "run --order --keep-numbers --bind --measure 1 --" in script
    assert f"rank --from {Another.identity} --" in script
    env = {"HOROVOD_RANK": "5", "HOROVOD_SIZE": "8", "HOROVOD_LOCAL_RANK": "1"}
    found = identify(Another.identity, {**env, "HOROVOD_LOCAL_SIZE": "4"})
    assert (found.rank, found.world_size, found.local_rank, found.node_rank) == (5, 8, 1, None)
    with pytest.raises(ConfigError, match=r"expected one of: plain, mpi, torchrun, "):
        prepared(command=words[1:], options={"launch.kind": "another"})


@pytest.mark.parametrize("program", ["srun", "mpirun", "mpiexec", "sbatch", "/usr/bin/srun"])
def test_another_launcher_in_front(program: str) -> None:
    """Srun, mpirun and the like in front are refused: hpckit writes them itself."""
    layer = option_layer({"command": ([program, "-n", "4", "train"], "--")})
    with pytest.raises(ConfigError, match="starts with") as caught:
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
