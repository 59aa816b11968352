"""An old batch script as a job file: what becomes a key, what stays, what is told."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.jobs.from_script import differences, job_from_script
from hpckit.script.slurm_words import job_keys
from hpckit.slurm.request import read_request
from hpckit.spec.job_text import job_toml, job_tree, settled_keys

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gpus-per-node=4\n"


@pytest.mark.parametrize(
    ("body", "kind", "command"),
    [
        ("srun python train.py --lr 1e-4", "plain", ["python", "train.py", "--lr", "1e-4"]),
        ("srun -l --kill-on-bad-exit=1 ./a.out 'a b'", "plain", ["./a.out", "a b"]),
        ("srun --mpi=pmix ./solver", "mpi", ["./solver"]),
        ("mpirun -np 8 --bind-to core ./solver in", "mpi", ["./solver", "in"]),
        ("srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node 4 --rdzv_endpoint=$H:1"
         " train.py", "torchrun", ["python3", "train.py"]),
        ("srun -n 2 python -m torch.distributed.run --nnodes 2 --nproc_per_node=4 -m pkg.train",
         "torchrun", ["python", "-m", "pkg.train"]),
        ("srun -n 2 accelerate launch --num_machines 2 --num_processes 8 train.py", "accelerate",
         ["python3", "train.py"]),
        ("time srun python train.py > log 2>&1", "plain", ["python", "train.py"]),
        ("srun -N $SLURM_NNODES -c 8 -n 8 ./a || exit 1", "plain", ["./a"]),
    ],
)  # fmt: skip
def test_a_launch_becomes_kind_and_command(body: str, kind: str, command: list[str]) -> None:
    """The launcher's own options, which hpckit writes itself, are gone."""
    keys = job_from_script(f"{HEAD}{body}\n", "old.sbatch").keys
    assert (keys["launch.kind"], keys["command"]) == (kind, command)
    assert keys["resources.ntasks_per_node"] == 4


def test_what_prepares_becomes_keys_in_a_jobs_order() -> None:
    """Modules, venv and plain exports; what follows a line that changes the environment stays."""
    keys = job_from_script(
        f"{HEAD}module purge\nmodule load cuda/12.8 gcc\nsource ~/venv/bin/activate\n"
        "set -e\nexport NCCL_DEBUG=INFO OMP_NUM_THREADS=8\n# a comment\nsource ./more.sh\n"
        "export AFTER=1\nmkdir -p out\nsrun python train.py\n",
        "old.sbatch",
    ).keys
    assert keys["environment.modules"] == ["cuda/12.8", "gcc"]
    assert keys["environment.modules_purge"]
    assert keys["environment.venv"] == "~/venv"
    assert keys["tune.env.NCCL_DEBUG"] == "INFO"
    assert keys["environment.set.OMP_NUM_THREADS"] == "8"
    assert keys["environment.setup"] == ["set -e\nsource ./more.sh\nexport AFTER=1\nmkdir -p out"]


def test_words_that_the_shell_expands_are_expanded_by_it() -> None:
    """An array, a glob, a variable: the script's own shell makes the command's words of them."""
    found = job_from_script(f"{HEAD}A=(x 'y z')\nsrun python train.py \"${{A[@]}}\" *.py\n", "old")
    assert found.keys["command"] == ["bash", "-c", 'eval "exec $HPCKIT_COMMAND"']
    setup = found.keys["environment.setup"]
    assert setup == [
        "A=(x 'y z')\nexport HPCKIT_COMMAND=$(printf '%q ' python train.py \"${A[@]}\" *.py)"
    ]


KEPT = "export HPCKIT_COMMAND=$(printf '%q ' python train.py $OPTS)"


@pytest.mark.parametrize(
    "before",
    [
        'OPTS="--a 1"\nOPTS+=" --b 2"',
        'if [ -n "$X" ]; then OPTS="--resume"; fi',
        'X=1 && OPTS="--resume"',
        "OPTS='--name \"a b\"'",
        "OPTS='--glob *.py'",
        "OPTS=--a\nread -r OPTS",
        "case $X in\na)\nOPTS=--a\n;;\nesac",
        "function set_options {\nOPTS=--a\n}",
        "OPTS=--a ./prepare",
    ],
)
def test_a_variable_that_bash_would_read_otherwise_is_left_to_it(before: str) -> None:
    """Set twice, set perhaps, with quotes or globs in its value."""
    found = job_from_script(f"{HEAD}{before}\nsrun python train.py $OPTS\n", "old")
    assert found.keys["environment.setup"] == [f"{before}\n{KEPT}"]


def test_a_variable_that_is_set_once_is_taken_apart() -> None:
    """As bash splits it."""
    found = job_from_script(f"{HEAD}OPTS='--a 1'\nsrun python train.py ${{OPTS}}\n", "old")
    assert found.keys["command"] == ["python", "train.py", "--a", "1"]


@pytest.mark.parametrize(
    "body",
    [
        "module load cuda/12 ||\n  module load cuda/11",
        "ml show cuda\nml list",
        "ml swap a b",
        "ml restore mine",
        'export SLURM_CPU_BIND="cores"',
        "export NCCL_SOCKET_IFNAME=ib0\nexport GLOO_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME",
        "function f {\nexport A=1\n}",
        './configure "$FOO"\nexport FOO=second',
        "export PATH=/opt/x:$PATH\nmodule load cuda",
        "CMD='a \\ \n\n# b'",
    ],
)
def test_what_no_key_says_in_that_place_stays(body: str) -> None:
    """Word for word, and in its place."""
    keys = job_from_script(f"{HEAD}{body}\nsrun ./a\n", "old").keys
    assert keys["environment.setup"] == [body]
    assert not {key for key in keys if key.startswith(("environment.", "tune."))} - {
        "environment.setup"
    }


def test_a_variable_that_is_set_again_keeps_its_order() -> None:
    """What stands between reads the first value."""
    keys = job_from_script(
        f"{HEAD}export FOO=first\n./configure $FOO\nexport FOO=second\nsrun ./a\n", "old"
    ).keys
    assert keys["environment.set.FOO"] == "first"
    assert keys["environment.setup"] == ["./configure $FOO\nexport FOO=second"]


def test_variables_of_the_launch_alone_are_expanded_by_the_script() -> None:
    """After the words of the command, as bash does."""
    keys = job_from_script(f"{HEAD}FOO=$SLURM_JOB_ID NCCL_DEBUG=INFO srun ./a $FOO\n", "old").keys
    assert keys["environment.setup"] == [
        "export HPCKIT_COMMAND=$(printf '%q ' ./a $FOO)\nexport FOO=$SLURM_JOB_ID"
    ]
    assert keys["tune.env.NCCL_DEBUG"] == "INFO"


@pytest.mark.parametrize(
    ("head", "body", "command"),
    [
        ("-N1 -n1", "for i in 1 2; do python a.py $i; done", ["bash", "old.sbatch"]),
        ("-N1 -n1", "./a.out < in.txt", ["bash", "old.sbatch"]),
        ("-N1 -n1", "python a.py; python b.py", ["bash", "old.sbatch"]),
        ("-N1 -n1", "python a.py | python b.py", ["bash", "old.sbatch"]),
        ("-N1 -n1", "deepspeed train.py *.txt", ["bash", "old.sbatch"]),
        ("-N2 -n2", "srun python a.py &\nsrun python b.py &\nwait", ["true"]),
        ("-N2 -n2", "if true; then srun python a.py; fi", ["true"]),
        ("-N4 --ntasks-per-node=1", "srun -N1 -n1 ./a", ["true"]),
        ("-N2 --ntasks-per-node=4", "srun -n 1 ./a", ["true"]),
        ("-N2 -n8", "srun -w n1 ./a", ["true"]),
        ("-N2 -n8", "srun -c 8 ./a", ["true"]),
        ("-N2 -n8", "srun ./a : ./b", ["true"]),
        ("-N2 -n2", "srun --multi-prog conf", ["true"]),
        ("-N2 -n8", "mpirun -np 4 ./a", ["true"]),
        ("-N2 -n8", "mpirun --hostfile h ./a", ["true"]),
        ("-N2 -n2", "torchrun --nproc_per_node=4 train.py", ["true"]),
        ("-N2 -n2", "srun torchrun --nnodes=1 --nproc_per_node=4 train.py", ["true"]),
        ("-N1 -n4", "srun torchrun --nproc_per_node=4 train.py", ["true"]),
        ("-N1 -n1", "srun /opt/env/bin/torchrun --nproc_per_node=4 train.py", ["true"]),
        ("-N1 -n1", "srun python -m torch.distributed.launch train.py", ["true"]),
        ("-N1 -n4", "timeout 1h srun ./a", ["true"]),
        ("-N1 -n4", "env FOO=1 srun ./a", ["true"]),
        ("-N1 -n4", "numactl --interleave=all mpirun -np 4 ./a", ["true"]),
        ("-N1 -n4", "srun ./a; python post.py", ["true"]),
        ("-N1 -n4", "srun ./a | python analyze.py", ["true"]),
        ("-N1 -n4", "srun ./a && echo done", ["true"]),
        ("-N1 -n1", "cat > b.sh <<E\n#SBATCH -N 1\nE\nsrun ./a", ["true"]),
    ],
)
def test_a_script_of_several_steps_stays_whole(head: str, body: str, command: list[str]) -> None:
    """So does a part of the job's step, and a line with more than the launch.

    As the one rank, or in place of the batch script where it starts steps of Slurm's.
    """
    found = job_from_script(f"#!/bin/bash\n#SBATCH {head}\n{body}\n", "old.sbatch")
    assert found.whole_because
    assert found.keys["command"] == command


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ("srun ./a\nsrun ./b", "no single launch"),
        ("srun torchrun --nproc-per-node 4 t.py", "torchrun on 2 nodes without --nnodes"),
        ("torchrun --nnodes 2 t.py", "Line 3 is started on the first of the job's 2 nodes"),
        (
            "srun -n1 torchrun --nproc-per-node 4 t.py",
            "Line 3 does not show that it starts the same",
        ),
        ("export PET_NNODES=2\nsrun torchrun t.py", "Line 4 does not show that it starts the same"),
        ("srun -n2 torchrun t.py", "torchrun on 2 nodes without --nnodes"),
        ("srun torchrun --nnodes=1 t.py", "torchrun on 2 nodes with --nnodes=1"),
        ("srun --gpus-per-task=1 ./a", "Line 3 has srun --gpus-per-task=1, with which"),
        ("srun -N 1 ./a", "Line 3 has srun -N 1, which is not what the job has"),
        ('N=4\nsrun --nodes="$N" ./a', 'has srun --nodes="$N", which is not what the job has'),
        ("srun $ARGS ./a", "Line 3 has srun $ARGS, whose value only the shell knows"),
        ("mpirun -np 2 --hostfile $H ./a", "Line 3 has mpirun --hostfile $H, whose value"),
        ("srun ./a <in", "Line 3 cannot stand apart"),
    ],
)
def test_why_a_script_stays_whole_is_said(body: str, because: str) -> None:
    """With its line, so that a person who wants the launch apart sees what to change."""
    found = job_from_script(f"#!/bin/bash\n#SBATCH -N2 --gpus-per-node=4\n{body}\n", "old.sbatch")
    assert because in found.whole_because


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{HEAD}#SBATCH -o out.txt\nsrun python a.py | tee log\necho done\n",
         [("--output=out.txt", 3), ("output of the launch", 4), ("line 5", 5)]),
        (f"{HEAD}srun --export=ALL,FOO=1 -D /data --mem=4G -t 10 ./a\n",
         [("srun --export=ALL,FOO=1", 3), ("srun -D /data", 3), ("srun --mem=4G", 3),
          ("srun -t 10", 3)]),
        (f"{HEAD}mpirun -x PATH -x FOO=2 --mca btl ^openib --bind-to core ./a\n",
         [("mpirun -x FOO=2", 3), ("mpirun --mca btl ^openib", 3), ("mpirun --bind-to core", 3)]),
        (f"{HEAD}srun -n 2 --mpi=pmix torchrun --nnodes=2 --nproc_per_node=4 t.py\n",
         [("srun --mpi=pmix", 3)]),
        (f"{HEAD}N=4\nif true; then N=2; fi\nsrun -n 2 torchrun --nnodes=2 --nproc-per-node=$N"
         " t.py\n", [("ranks of torchrun", 5)]),
        (HEAD.replace("bash", "bash -l") + "srun ./a\n", [("bash -l", 1)]),
        (f"{HEAD}#PBS -q gpu\nsrun ./a\n", [("#PBS -q gpu", 3)]),
        (f"{HEAD}#SBATCH --export=ALL,SLURM_HINT=x\nsrun ./a || exit 1\n",
         [("--export=ALL,SLURM_HINT=x", 3)]),
    ],
)  # fmt: skip
def test_what_is_left_is_told_with_its_line(text: str, left: list[tuple[str, int]]) -> None:
    """Logs, what stands behind the launch, and options that no key says."""
    found = job_from_script(text, "old")
    assert [(one.option, one.line_no) for one in found.left] == left
    assert not found.whole_because


@pytest.mark.parametrize(
    ("shebang", "command"),
    [
        ("/usr/bin/env python3", ["python3", "old.py"]),
        ("/usr/bin/env -S tcsh -f", ["tcsh", "-f", "old.py"]),
        ("/bin/tcsh -f", ["tcsh", "-f", "old.py"]),
        ("/opt/bin/julia", ["/opt/bin/julia", "old.py"]),
    ],
)
def test_a_script_of_another_language_runs_whole(shebang: str, command: list[str]) -> None:
    """By its interpreter, whatever its quotes."""
    found = job_from_script(f'#!{shebang}\n#SBATCH -N1\nprint("it\'s")\nsetenv A b\n', "old.py")
    assert found.keys["command"] == command


def test_a_second_job_is_refused() -> None:
    """A job file is one job."""
    with pytest.raises(ParseError, match="hetjob"):
        job_from_script(f"{HEAD}#SBATCH hetjob\n#SBATCH -N 8\nsrun ./a : ./b\n", "old")


def test_a_script_that_no_shell_reads() -> None:
    """An open quote is an error with its line."""
    with pytest.raises(ParseError, match="line 3"):
        job_from_script(f"{HEAD}echo 'open\n", "old")


@given(
    nodes=st.integers(1, 8), tasks=st.integers(1, 8), cpus=st.integers(1, 16),
    gpus=st.integers(0, 8), way=st.sampled_from(["per node", "in all"]),
)  # fmt: skip
def test_keys_ask_for_what_the_options_ask(
    nodes: int, tasks: int, cpus: int, gpus: int, way: str
) -> None:
    """However a script counts: per node, or all nodes together."""
    words = {
        "per node": f"--ntasks-per-node={tasks} --gres=gpu:{gpus}",
        "in all": f"-n {nodes * tasks} --gpus={nodes * gpus}",
    }[way]
    request = read_request(f"#!/bin/sh\n#SBATCH -N {nodes} -c {cpus} {words}\n")
    keys = job_keys(request).keys
    assert keys["resources.nodes"] == nodes
    assert keys["resources.ntasks_per_node"] == tasks
    assert keys["resources.cpus_per_task"] == cpus
    assert keys.get("resources.gpus_per_node", 0) == gpus


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ("--export=A,B", {"environment.inherit": "none", "environment.pass": ["A", "B"]}),
        ("--hold", {"slurm.extra.hold": True}),
        (
            "--gres=gpu:2,gpumem:20g",
            {"slurm.extra.gres": "gpumem:20g", "resources.gpus_per_node": 2},
        ),
    ],
)
def test_no_option_of_sbatch_is_lost(options: str, keys: dict[str, object]) -> None:
    """Several names, the state in which it is submitted, and gres whose names begin with gpu."""
    assert job_keys(read_request(f"#!/bin/sh\n#SBATCH {options}\n")).keys == keys


def test_differences_name_both() -> None:
    """What the job asks for, and what the script did."""
    before = read_request("#!/bin/sh\n#SBATCH -N 2 -p gpu --requeue\n")
    after = read_request("#!/bin/sh\n#SBATCH -N 1 -p gpu\n")
    assert [*differences(before, after)] == ["nodes: 1 here, 2 in the script"]


@pytest.mark.parametrize(
    "value", ["plain", 'a "quoted" one', "back\\slash", "two\nlines", "'''\nthree", "tab\there\n'"]
)
def test_a_job_file_reads_back(value: str) -> None:
    """Text of any kind is quoted as TOML reads it."""
    keys = {"name": "x", "command": ["true", value], "environment.setup": [value],
            "environment.set.A.b": value, "resources.nodes": 2}  # fmt: skip
    assert tomllib.loads(job_toml(keys, ["why"])) == job_tree(keys)


@pytest.mark.parametrize("key", ["slurm.signal", "slurm.srun_extra.foo_bar", "tune.env.SLURM_X"])
def test_a_key_that_cannot_be_is_taken_out(key: str) -> None:
    """With the reason, so that the rest of the file holds."""
    keys, errors = settled_keys({"name": "x", "command": ["true"], key: "FOO@1"}, "old.sbatch")
    assert key not in keys
    assert len(errors) == 1
    assert key.startswith(errors[0].key or "none")
