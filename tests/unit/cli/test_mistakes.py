"""Mistakes that newcomers make, and the first suggestion that each is answered with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conftest import RunHpckit

TRAIN: Final = "-- torchrun train.py"
OPTIONS: Final = [
    (f"render -o log-%j.out {TRAIN}", "hpckit logs"),
    (f"submit --array 1:10 {TRAIN}", "--array 1-10"),
    ("sbatch job.toml", "hpckit submit"),
    ("job.toml", "hpckit submit job.toml"),
    ("train.py", "hpckit submit -- python3 train.py"),
    ("submit -- -N 2 python3 train.py", "hpckit submit -N 2 -- python3 train.py"),
    ("--site local submit job.toml", "hpckit submit --site local job.toml"),
    ("render -v /data:/data -- true", "container.mounts="),
    ("render -N 2 --launch srun -- true", "plain"),
    ("plan Llama-3-70B --gpu h100:8", "--gpu h100 --gpus 8"),
    ("sample --out s --interval 5", "--hz 0.2"),
    ("inspect topology.conf", "hpckit fabric show topology.conf"),
    ("tune --lint nccl.log", "hpckit tune --compare nccl.log"),
    ("render --site ./mine.toml job.toml", "--site-dir . --site mine"),
    ("render -N 8 -G 4 -- true", "--gpus-per-node 4"),
    ("plan model.safetensors", "config.json"),
    ("--wrap=hostname", "hpckit submit -- COMMAND"),
    ("inspect job.toml", "hpckit check job.toml"),
    ("tune old.sbatch", "hpckit tune --lint old.sbatch"),
    ("place --nodelist n[1-4] --gpus-per-node 8 --mesh tp=8,dp=4", "tensor"),
    (f"submit -np 16 {TRAIN}", "-n RANKS -N NODES"),
    (f"submit --hostfile h {TRAIN}", "--nodelist"),
    (f"submit --timeout_min 480 {TRAIN}", "--time"),
    (f"submit --time 8h30 {TRAIN}", "--time 8:30:00"),
    ("torchrun train.py", "hpckit submit -- torchrun"),
    ("submit jobs.toml", "job.toml"),
    (f"submit --gpu 4 {TRAIN}", "--gpus-per-node"),
    (f"submit --num-gpus 4 {TRAIN}", "--gpus-per-node"),
    (f"submit --walltime 8:00:00 {TRAIN}", "--time"),
    (f"submit --time-limit 8:00:00 {TRAIN}", "--time"),
    (f"submit --memory 64G {TRAIN}", "--mem"),
    (f"submit --output x.log {TRAIN}", "hpckit logs"),
    (f"submit --queue gpu {TRAIN}", "--partition"),
    (f"submit --project p1 {TRAIN}", "--account"),
    (f"submit --gpus_per_node 4 {TRAIN}", "--gpus-per-node"),
    (f"submit --cores 8 {TRAIN}", "--cpus-per-task"),
    (f"submit --export ALL {TRAIN}", "--env NAME=VALUE, --pass NAME"),
    (f"submit --ntask-per-node 4 {TRAIN}", "--ntasks-per-node"),
    (f"submit --accont p1 {TRAIN}", "--account"),
    (f"submit --sites docker {TRAIN}", "--site"),
    ("submit --interactive -- bash", "salloc, or srun --pty"),
    (f"submit -t 2h {TRAIN}", "--time 2:00:00"),
    (f"submit --mem 64gigs {TRAIN}", "--mem 64G"),
    (f"submit --set resources.time_limit=3d {TRAIN}", "--set resources.time_limit=3-00:00:00"),
    (f"submit --gpus four {TRAIN}", "[TYPE:]N"),
    ("submit torchrun train.py", "hpckit submit -- torchrun train.py"),
    ("submit -N 2 torchrun --lr 1 train.py", "hpckit submit -N 2 -- torchrun --lr 1 train.py"),
    ("submit train.py", "hpckit submit -- python3 train.py"),
    ("submit -N 2 train.py --lr 1", "hpckit submit -N 2 -- python3 train.py --lr 1"),
    ("submit --wrap train.py", "-- COMMAND"),
    ("submit train.py --local", "hpckit submit --local -- python3 train.py"),
    ("submit --mem 64 GB -- true", "--mem 64G"),
    ("render --dependency after-ok:12 -- true", "afterok:4242"),
    ("inspect node1", "hpckit inspect --nodes node1"),
    ("status myjob", "hpckit jobs --name myjob"),
    ("submit run.sh", "hpckit submit -- bash run.sh"),
    ("submit old.sbatch", "hpckit init --from old.sbatch"),
    ("render old.sbatch", "hpckit init --from old.sbatch"),
    ("submit job.sh", "hpckit init --from job.sh"),
    ("init job.sh", "hpckit init --from job.sh"),
    ("submit job", "hpckit init --from job"),
    ("submit job.toml --site dokcer", "'docker'"),
    ("submit --local --nodes 2 -- true", "--nodes 1"),
    ("sbatch old.sbatch", "hpckit init --from"),
    ("squeue", "hpckit jobs"),
    ("scancel 12", "hpckit cancel"),
    ("cancle 12", "hpckit cancel"),
    ("place --nodes 4", "--nodelist"),
    ("logs", "hpckit submit JOB"),
    ("logs 18 -n 5", "--tail N"),
    ("logs -e", "remove it: the log holds stdout and stderr"),
    ("render -o f", "> FILE"),
    ("report -o f", "--html FILE"),
    ("wait -t 5", "--timeout SECONDS"),
    ("jobs -t RUNNING", "--state STATE"),
    ("jobs --limit 5", "-n N"),
    ("jobs --me", "only your jobs"),
    ("jobs --verbose", "it has --all, --state"),
    ("cancel --all", "hpckit cancel JOB_ID"),
    ("cancel -9 12", "--signal KILL"),
    ("-v", "--version"),
    (f"submit --image x {TRAIN}", "--set container.image=IMAGE"),
    (f"submit --mpi {TRAIN}", "--launch mpi"),
    (f"submit --nnodes 2 {TRAIN}", "--nodes"),
    (f"submit --parsable {TRAIN}", "--quiet"),
    ("submit --wrap hostname", "-- COMMAND"),
    ("apply job.toml", "hpckit submit"),
    ("get", "hpckit jobs"),
    ("describe 12", "hpckit status"),
    ("delete 12", "hpckit cancel"),
    ("submit -- FOO=1 ./run", "--env FOO=1 -- ./run"),
    ("submit -- cd foo", "-- bash -c 'cd foo'"),
    ("submit -- module load cuda", """--set 'environment.modules=["cuda"]'"""),
    ("submit -- mpirun -np 4 ./x", "--launch mpi -N 1 -n 4 -- ./x"),
    ("submit -- python3 -m torch.distributed.run --nproc_per_node 4 x.py", "--ntasks-per-node"),
    ("submit -- python3 -m torch.distributed.launch x.py", "torchrun train.py"),
    ("submit -- torchrun --standalone x.py", "remove it: one node needs"),
    ("submit --again", "--again ID (hpckit jobs lists them)"),
    ("report 18 --html", "--html FILE"),
    ("jobs --json=true", "--json alone"),
    (f"submit --nodes=1-2 {TRAIN}", "--nodes 2"),
    ("wait --timeout 5m", "--timeout SECONDS"),
    ("cancel 5 --signal SIGTERM", "did you mean term?"),
    ("cancel", "hpckit cancel JOB_ID (hpckit jobs lists them)"),
    ("jobs 12", "hpckit status 12"),
    ("submit -- srun -n 4 ./x", "-N 1 -n 4 -- ./x"),
    ("submit -- sbatch x.sh", "hpckit init --from"),
    ("submit -- conda activate x", "--set environment.conda=x"),
    (f"submit --mem-per-node 64G {TRAIN}", "--mem"),
    (f"submit --nproc 4 {TRAIN}", "--ntasks"),
    (f"submit --test {TRAIN}", "--dry-run"),
    (f"submit -partition gpu {TRAIN}", "--partition"),
    ("jobs -json", "--json"),
    ("render job.toml --format json", "--json"),
    (f"submit --pass FOO=1 {TRAIN}", "--env FOO=1"),
    (f"submit --mail-type done {TRAIN}", "BEGIN, END, FAIL"),
    (f"submit --set time=1:00 {TRAIN}", "--set resources.time_limit=1:00"),
    (f"submit --set environment.modules=cuda {TRAIN}", """'environment.modules=["cuda"]'"""),
    (f"submit --set resources.exclusive=yes {TRAIN}", "--set resources.exclusive=true"),
    ("submit nofile.toml", "hpckit init"),
    ("sites add x", "did you mean init?"),
    ("schema jobs", "did you mean job?"),
    ("login", "hpckit --help"),
    (f"submit --begin tomorow {TRAIN}", '"tomorrow"'),
    ("cancel 12 13", "hpckit cancel 12 && hpckit cancel 13"),
    ("sites lumi", "hpckit sites show lumi"),
    ("render --gpus-per-node 4 --cpus-per-gpu 8 -- true", "--cpus-per-task N (per rank)"),
    ("jobs --state FALIED", "did you mean FAILED?"),
    (f"submit --mem-per-cpu 4G --mem 8G {TRAIN}", "give --mem or --mem-per-cpu, not both"),
]
KEYS: Final = [
    ('[resources]\naccelerators = "H100:8"', 'gpus_per_node = 8 and gpu_type = "H100"'),
    ('slurm_partition = "gpu"', 'partition = "gpu"   under [slurm]'),
    ('[envs]\nA = "1"', "[environment.set]"),
    ('[resources]\ntime = "8:00:00"', 'time_limit = "8:00:00"'),
    ('[resources]\ntime = "2h"', 'time_limit = "2:00:00"'),
    ('[resources]\ncpus = "8"', "cpus_per_task = 8"),
    ('[resources]\nnodes = "4.0"', "nodes = 4"),
    ("[environment]\nA = 2020-01-01", 'set = { A = "2020-01-01" }'),
    ("[resources]\ngpus = 8", "gpus_per_node = 8   (per node; gpus counts all nodes)"),
    ("[resources]\nnodes = 2\ngpus = 8", "gpus_per_node = 4   (per node"),
    ('[resources]\nmemory = "64G"', 'mem = "64G"'),
    ('[resources]\ntime_limit = "2h"', 'time_limit = "2:00:00"'),
    ('[resources]\nmem = "64 gigs"', 'mem = "64G"'),
    ('[resources]\nnodes = "2"', "nodes = 2"),
    ('[slurm]\npartion = "gpu"', "`partition`"),
    ('[launch]\ntype = "torchrun"', 'kind = "torchrun"'),
    ('[[stage]]\nname = "a"', "[[stages]]"),
    ("[slurm]\ngpu_per_node = 8", "gpus_per_node = 8   under [resources]"),
    ('[slurm]\nnodes = "two"', "nodes = N   under [resources]"),
    ('[launch]\nkind = "torch"', 'kind = "torchrun"'),
    ('[env]\nFOO = "1"', "[environment.set]"),
    ('[tune]\nNCCL_DEBUG = "INFO"', 'env = { NCCL_DEBUG = "INFO" }'),
    (
        "[resources]\ntime_limit = 3600",
        'time_limit = "1:00:00"   (3600 seconds; "3600" is minutes to Slurm)',
    ),
    ("[resources]\nwalltime = 2", 'time_limit = "2:00:00"   (2 hours; "2" is minutes to Slurm)'),
    ('[resources]\ntime_limit = "1h30m"', 'time_limit = "1:30:00"'),
    ("[resources]\ntime_limit = 08:00:00", 'time_limit = "08:00:00"'),
    ("[resources]\nmem = 64", 'mem = "64G"'),
    ('[resources]\nexclusive = "yes"', "exclusive = true"),
    ('[resources]\ngpus_per_node = "h100:4"', 'gpus_per_node = 4 and gpu_type = "h100"'),
    ('[slurm]\ngres = "gpu:4"', "gpus_per_node = 4   under [resources]"),
    ("[slurm]\narray = [1, 6]", 'array = "1,6"'),
    ('[slurm]\nmail_type = "END,FAIL"', 'mail_type = ["END", "FAIL"]'),
    ('[slurm]\nemail = "me@x"', 'mail_user = "me@x"'),
    ('[slurm]\nextra = ["hold"]', "extra = { hold = true }"),
    ('[environment]\nmodules = "cuda nccl"', 'modules = ["cuda", "nccl"]'),
    ('[environment]\nmodule = "cuda"', 'modules = ["cuda"]'),
    ('[environment.env]\nFOO = "1"', "[environment.set]"),
    ('[environment]\nvars = ["FOO=1"]', 'set = { FOO = "1" }'),
    ('[environment]\nexports = ["FOO"]', 'pass = ["FOO"]'),
    ("[environment.set]\nFOO = 8", 'FOO = "8"'),
    ('[tune]\nenv = ["NCCL_DEBUG=INFO"]', 'env = { NCCL_DEBUG = "INFO" }'),
    ("[parallel]\ntp = 8", "tensor = 8"),
    ('[parallel]\ntensor = "8"', "tensor = 8"),
    ('[sbatch]\ntime = "1:00"', "[slurm]"),
    ('container = "x.sif"', 'image = "x.sif"   under [container]'),
    ('[slurm]\nmodules = ["cuda"]', 'modules = ["cuda"]   under [environment]'),
    ('[resources]\nmem = "8G"\nmem_per_cpu = "1G"', "give mem or mem_per_cpu, not both"),
]
NOT_TOML: Final = [
    ("time_limit = 8:00:00", 'quote it: time_limit = "8:00:00"'),
    ("exclusive = True", "exclusive = true"),
    ("nodes: 2", "nodes = 2"),
    ("mem = none", "remove mem"),
    ("nodes = 1\nnodes = 2", "remove one: nodes = 2"),
]
LINES: Final = [
    "instead: ",
    "remove it: ",
    "; it has",
    "which? ",
    "did you mean ",
    "expected ",
    "a command goes after --: ",
    "options go before --: ",
]


def first_suggestion(answer: str) -> str:
    """What stands behind the first word of an answer that proposes something; a fix is first."""
    _, fix, behind = answer.partition("fix: ")
    answer = behind if fix else answer
    at = min((place for word in LINES if (place := answer.find(word)) >= 0), default=0)
    return answer[at:].split("\n")[0]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the files that newcomers have."""
    for name in ("old.sbatch", "job.sh", "job"):
        (tmp_path / name).write_text("#!/bin/bash\n#SBATCH -N 1\nsrun true\n")
    for name in ("train.py", "run.sh"):
        (tmp_path / name).touch()
    (tmp_path / "topology.conf").write_text("SwitchName=leaf1 Nodes=n[001-016]\n")
    (tmp_path / "nccl.log").write_text("n1:1:2 [0] NCCL INFO Bootstrap: Using eth0\n")
    (tmp_path / "model.safetensors").write_bytes(bytes(range(8)))
    (tmp_path / "job.toml").write_text('schema = "hpckit.job/1"\nname = "x"\ncommand = ["true"]\n')
    return tmp_path


@pytest.mark.parametrize(("line", "meant"), OPTIONS, ids=[line for line, _ in OPTIONS])
def test_a_mistake_on_the_command_line_is_answered_with_what_was_meant(
    run_hpckit: RunHpckit, here: Path, line: str, meant: str
) -> None:
    """The first suggestion is the right one, and nothing is submitted."""
    done = run_hpckit(*line.split(), cwd=here)
    assert done.returncode != 0
    assert meant in first_suggestion(done.stderr)


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        ("-o", "> FILE"), ("--hold", "--set slurm.extra.hold=true"),
        ("--mem-bind=local", "slurm.extra.mem-bind="), ("-W", "hpckit submit --wait"),
        ("--nproc_per_node=8", "--ntasks-per-node"), ("--xyzzy", "has no --xyzzy\n"),
    ],
)  # fmt: skip
def test_an_option_of_other_tools_names_the_one_here(
    run_hpckit: RunHpckit, typed: str, instead: str
) -> None:
    """By what it means, not by how it is spelled."""
    done = run_hpckit("render", typed, "--", "true")
    assert done.returncode == 2
    assert instead in done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("-- python3 a.py && python3 b.py", "bash -c 'python3 a.py && python3 b.py'"),
        ("--env LIB=/x:$LIB -- true", 'setup = ["export LIB=/x:$LIB"]'),
        ("--site lumi -p gpu --gpus-per-node 8 -- true", "--partition=standard-g"),
        ("--site perlmutter --gpus-per-node 8 -N 1 -- true", "--nodes=2 --gpus-per-node=4"),
        ("--site lumi -p debug -N 1 --gpus-per-node 8 -- true", "--partition=standard-g"),
    ],
)
def test_what_would_run_otherwise_than_meant_is_said(
    run_hpckit: RunHpckit, here: Path, typed: str, meant: str
) -> None:
    """The script is written with a note, or refused; both say what to type."""
    done = run_hpckit("render", *typed.split(), cwd=here)
    assert done.returncode in (0, 5)
    assert meant in " ".join(done.stderr.split())


@pytest.mark.parametrize(("key", "meant"), KEYS, ids=[key for key, _ in KEYS])
def test_a_mistake_in_a_job_file_is_answered_with_the_line_to_paste(
    run_hpckit: RunHpckit, here: Path, key: str, meant: str
) -> None:
    """The suggestion of the wrong key's line is the right one."""
    job = here / "job.toml"
    job.write_text(job.read_text() + f"\n{key}\n")
    done = run_hpckit("render", "job.toml", cwd=here)
    assert done.returncode == 3
    assert "job.toml, line " in done.stderr
    assert meant in first_suggestion(done.stderr)


@pytest.mark.parametrize(
    "line",
    ["cpus_per_task = 1.5", "mem = {A = 1}", "mem = -1", "mem = inf", "time_limit = 0",
     'nodes = "٣"', f"zz{'.a' * 1500} = 1"],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_what_stands_for_nothing_has_no_line_to_paste(
    run_hpckit: RunHpckit, here: Path, line: str
) -> None:
    """A suggestion that would be refused again is none."""
    job = here / "job.toml"
    job.write_text(job.read_text() + f"[resources]\n{line}\n")
    done = run_hpckit("render", "job.toml", cwd=here)
    assert done.returncode == 3
    assert "fix: " not in done.stderr.replace("fix: valid keys", "")


@pytest.mark.parametrize(("lines", "meant"), NOT_TOML)
def test_a_line_that_is_no_toml_is_answered_with_the_line_to_paste(
    run_hpckit: RunHpckit, here: Path, lines: str, meant: str
) -> None:
    """TOML asks for quotes where YAML and shells do not."""
    job = here / "job.toml"
    job.write_text(job.read_text() + f"[resources]\n{lines}\n")
    done = run_hpckit("render", "job.toml", cwd=here)
    assert done.returncode == 3
    assert meant in first_suggestion(done.stderr)


def test_a_command_in_one_word_is_answered_with_its_words(
    run_hpckit: RunHpckit, here: Path
) -> None:
    """A line in quotes is no program; one with a shell's signs goes to a shell."""
    done = run_hpckit("submit", "--", "python3 train.py", cwd=here)
    assert first_suggestion(done.stderr) == "-- python3 train.py"
    done = run_hpckit("submit", "--", "a.out && b.out", cwd=here)
    assert first_suggestion(done.stderr) == "-- bash -c 'a.out && b.out'"


def test_a_script_without_its_interpreter_has_a_note(run_hpckit: RunHpckit, here: Path) -> None:
    """It may be in PATH, so that the job is taken."""
    done = run_hpckit("render", "--", "train.py", "--lr", "1", cwd=here)
    assert done.returncode == 0
    assert "PATH, not in the job's folder" in done.stderr
    assert "-- python3 train.py --lr 1" in done.stderr


def test_a_job_in_yaml_is_answered_with_what_writes_toml(run_hpckit: RunHpckit, here: Path) -> None:
    """By its name, as no line of it is TOML."""
    (here / "job.yaml").write_text("name: x\n")
    assert "hpckit init" in first_suggestion(run_hpckit("submit", "job.yaml", cwd=here).stderr)


def test_the_name_of_an_image_is_no_file_to_apptainer(run_hpckit: RunHpckit, here: Path) -> None:
    """Without its scheme it would be sought as a file, when the job has started."""
    done = run_hpckit("check", "--set", "container.image=ubuntu:22.04", "--", "true", cwd=here)
    assert "docker://ubuntu:22.04" in done.stdout
