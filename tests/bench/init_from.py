"""`hpckit init --from` on a folder of batch scripts: does the job ask for, and start, the same?

python -m tests.bench.init_from FOLDER [IMAGE] submits, held, each script that sbatch takes and what
hpckit renders of its job file, to a slurmctld with made-up nodes, and compares `scontrol show job`.
Site words (partition, account, features, nodes and the like) are cut out of both first, as no
made-up cluster has them. What differs must be a comment of the job file.

python -m tests.bench.init_from FOLDER --ranks needs no Slurm. It runs both scripts in a root folder
of their own, without a network, where srun, python, module and all that is no tool of the shell
only write down their words and environment, and compares what the ranks get.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hpckit.cli.init import _job_file, _read_script
from hpckit.comm.shell.launch_line import launch_line
from hpckit.comm.shell.lexer import Word
from hpckit.core.errors import HpckitError
from hpckit.jobs.components import prepare_job
from hpckit.jobs.from_script import job_from_script
from hpckit.jobs.source import JobSource
from hpckit.slurm.request import read_request
from hpckit.wiring import resources
from tests.cluster.controller import Controller, controller
from tests.cluster.made_up_slurm import NodeKind, kinds_conf

SITE_WORDS: Final = re.compile(
    r"^(#SBATCH\s+)(--(partition|account|qos|constraint|reservation|nodelist|exclude|licenses"
    r"|dependency|clusters|mail-\w+|gres-flags|hint|wckey|gpu-bind|chdir|export)\b"
    r"|-[ApqCwxLdMD]\b)",
    re.MULTILINE,
)
GPU_TYPE: Final = re.compile(r"^(#SBATCH.*gpu)s?(-per-node|-per-task)?([:=])[A-Za-z][\w.-]*:(\d)",
                             re.MULTILINE)  # fmt: skip
FIELDS: Final = ("NumNodes", "NumCPUs", "TimeLimit", "ReqTRES", "MinMemoryNode", "MinMemoryCPU",
                 "OverSubscribe", "ArrayTaskId", "Requeue")  # fmt: skip
CLUSTER: Final = NodeKind(count=2048, cpus=256, mem_mib=4_000_000, gpus=16, gpu_type=None)


def scripts(folder: Path) -> Iterator[Path]:
    """The files below a folder that have #SBATCH lines and are no documents."""
    for path in sorted(folder.rglob("*")):
        is_text = path.suffix not in (".md", ".rst", ".ipynb", ".py", ".txt", ".html", ".yaml")
        if path.is_file() and is_text and b"\n#SBATCH" in path.read_bytes()[:65536]:
            yield path


def without_site(text: str) -> str:
    """The script without words that only its own cluster knows."""
    return GPU_TYPE.sub(r"\1s\2\3\4", SITE_WORDS.sub(r"#\1\2", text))


def asked(on: Controller, script: str) -> dict[str, str] | str:
    """What a script asks for, as slurmctld has it; why it is refused, where it is."""
    done = on.run(["sbatch", "--parsable", "--hold", "--job-name=x"], input=script)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "refused"
    job_id = done.stdout.strip()
    shown = on.check(["scontrol", "--oneliner", "show", "job", job_id]).splitlines()[0]
    on.check(["scancel", job_id])
    found = dict(re.findall(r"(\S+?)=(\S*)", shown))
    found["NumNodes"] = re.sub(r"^(\d+)-\1$", r"\1", found.get("NumNodes", ""))
    return {name: found.get(name, "") for name in FIELDS}


def rendered(script: Path, text: str) -> tuple[str, list[str]]:
    """What hpckit renders of the script's job file, and the file's comments."""
    script.write_text(text, encoding="utf-8")
    carried = _read_script(str(script))
    job_file, comments, _ = _job_file(carried.keys, carried, str(script), None)
    source = JobSource(file_text=job_file, file_name="job.toml", options={}, option_words=(),
                       command=(), site_name=None, template=None, folder=script.parent)  # fmt: skip
    return prepare_job(source, resources(), None).script.text, comments


def main() -> None:
    """Print a line for each script that differs, and the counts."""
    folder = Path(sys.argv[1])
    if "--ranks" in sys.argv:
        compare_ranks(folder)
        return
    image = sys.argv[2] if len(sys.argv) > 2 else "hpckit-cluster:trixie-mpi"
    counts: Counter[str] = Counter()
    conf = kinds_conf([CLUSTER], ["PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED"])
    work = Path(os.environ.get("TMPDIR", "/tmp")) / "init-from"
    work.mkdir(exist_ok=True)
    with controller(conf, image=image, environ=dict(os.environ)) as on:
        for path in scripts(folder):
            counts[compared(on, path, work)] += 1
    for what, count in counts.most_common():
        print(f"{count:5} {what}")


def compared(on: Controller, path: Path, work: Path) -> str:
    """Compare one script; return in a few words how it went."""
    text = without_site(path.read_text(encoding="utf-8", errors="replace"))
    before = asked(on, text)
    if isinstance(before, str):
        return f"sbatch refuses the script: {before[:60]}"
    try:
        script, comments = rendered(work / path.name, text)
    except HpckitError as error:
        print(f"{path}: {error}".replace("\n", " "))
        return "hpckit refuses"
    after = asked(on, script)
    marks = (" in the script", "requeue: ")
    told = [comment for comment in comments if any(mark in comment for mark in marks)]
    if before == after:
        return "the same"
    differs = after if isinstance(after, str) else " ".join(
        f"{name} {before[name]}→{after[name]}" for name in FIELDS if before[name] != after[name]
    )  # fmt: skip
    print(f"{path}: {differs} · comments: {'; '.join(told) or 'NONE'}")
    return "differs, and the file says so" if told else "DIFFERS IN SILENCE"


# --- What the ranks get.

TOOLS: Final = "bash env cat head tail hostname dirname basename wc tr sed awk grep seq sort uniq"
"""Programs that run; all others only write down that they were called."""
RECORDED: Final = (
    "srun mpirun mpiexec torchrun accelerate deepspeed python python2 python3 python3.9 module ml"
    " conda scontrol squeue sacct sbatch nvidia-smi date rm mv cp mkdir rmdir touch ln chmod git"
    " pip pip3 curl wget ssh scp rsync sudo sleep tee find xargs"
    " pkill kill free df ls tar docker enroot"
)
RECORD: Final = """#!/bin/bash -p
case "$0 $1" in *"/date "*) echo 20260101 ;; *"/tee "*) exec cat ;; *"/python3 -I") exit 1 ;; esac
{ printf '%s\\0' "${0#/stubs/}" "$@"; printf '\\036'; env -0; } >"/record/$EPOCHREALTIME.$BASHPID"
"""
FUNCTIONS: Final = """
source() { /stubs/source "$@"; }
cd() { :; }
pushd() { :; }
clear() { :; }
command_not_found_handle() { /stubs/other "$@"; }
"""
OWN: Final = frozenset(("_", "PWD", "OLDPWD", "SHLVL", "BASH_ENV", "HPCKIT_COMMAND"))
MEETING: Final = frozenset(("MASTER_ADDR", "MASTER_PORT"))
"""Variables that hpckit sets for each job."""


class Call(NamedTuple):
    """A program as it was called, without srun before it, and its environment."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    ranks: str = ""


def compare_ranks(folder: Path) -> None:
    """Print a line for each script whose ranks get something else, and the counts."""
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as work:
        root = Path(work) / "root"
        build_root(root)
        for path in scripts(folder):
            kind, differs = ranks_of(root, path, Path(work))
            counts[kind] += 1
            if differs:
                print(f"{path.name}: {'; '.join(differs)}"[:2000])
                counts.update(f"      {one.split(' ', 1)[0]}" for one in differs)
    for what, count in sorted(counts.items(), key=lambda item: item[0].strip()):
        print(f"{count:5} {what}")


def build_root(root: Path) -> None:
    """Write a root folder with a shell, its tools, and stubs for all else."""
    for folder in ("bin", "stubs", "dev", "tmp", "home", "usr/bin"):
        (root / folder).mkdir(parents=True)
    for tool in TOOLS.split():
        found = Path(shutil.which(tool) or tool).resolve()
        shutil.copy(found, root / "bin" / tool)
        listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for library in map(Path, re.findall(r"(/\S+) \(0x", listed)):
            (root / library.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library.relative_to("/"))
    for name in (*RECORDED.split(), "source", "other"):
        (root / "stubs" / name).write_text(RECORD)
        (root / "stubs" / name).chmod(0o755)
    (root / "functions").write_text(FUNCTIONS)
    (root / "usr/bin/time").write_text('#!/bin/bash\n[[ $1 == -v ]] && shift\nexec "$@"\n')
    (root / "usr/bin/time").chmod(0o755)
    (root / "dev/null").touch()


def calls(root: Path, script: str) -> list[Call]:
    """Run a script in the root folder; return what it called."""
    (root / "script").write_text(script)
    shutil.rmtree(root / "record", ignore_errors=True)
    (root / "record").mkdir()
    request = read_request(script)
    tasks = -(-request.tasks // request.nodes)
    environ = {
        "PATH": "/stubs:/bin", "HOME": "/home", "USER": "u", "BASH_ENV": "/functions",
        "SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_JOB_NAME": "x", "SLURM_PROCID": "0",
        "SLURM_JOB_NODELIST": "n1", "SLURM_NODELIST": "n1", "SLURM_SUBMIT_DIR": "/home",
        "SLURM_NNODES": str(request.nodes), "SLURM_JOB_NUM_NODES": str(request.nodes),
        "SLURM_NTASKS": str(request.nodes * tasks), "SLURM_NTASKS_PER_NODE": str(tasks),
        "SLURM_CPUS_PER_TASK": str(request.count("cpus-per-task") or 1),
        "SLURM_GPUS_ON_NODE": str(request.gpus // request.nodes), "SLURM_ARRAY_TASK_ID": "1",
    }  # fmt: skip
    inside = (
        'mount --bind /dev/null "$0/dev/null"; ulimit -f 20000; exec chroot "$0" /bin/bash /script'
    )
    subprocess.run(
        ["timeout", "5", "unshare", "-rnm", "sh", "-c", inside, root],
        env=environ | {"PATH": f"{environ['PATH']}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    return [call(path.read_text(errors="replace")) for path in sorted((root / "record").iterdir())]


def call(record: str) -> Call:
    """Return one call: of srun and torchrun, the program behind them."""
    said, _, variables = record.partition("\036")
    argv = said.split("\0")[:-1]
    all_of_it = dict(one.partition("=")[::2] for one in variables.split("\0") if one)
    environ = {name: value for name, value in all_of_it.items()
               if name not in OWN and not name.startswith("SLURM_")}  # fmt: skip
    argv, ranks = behind(argv)
    if argv[:2] == ["bash", "-c"] and argv[2].startswith("exec torchrun "):
        argv, ranks = behind(argv[3:])
    if argv[:2] == ["bash", "-c"] and "$HPCKIT_COMMAND" in argv[2]:
        shown = ["bash", "-c", f"printf '%s\\0' {all_of_it['HPCKIT_COMMAND']}"]
        argv = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split("\0")
        argv, of_rest = behind(argv[:-1])
        ranks = ranks or of_rest
    return Call(tuple(argv), environ, ranks)


def behind(argv: Sequence[str]) -> tuple[list[str], str]:
    """Return the program that a launcher starts, and the ranks that it is told to."""
    line = launch_line([Word(word, shlex.quote(word), 1, is_plain=True) for word in argv])
    if line is None or (line.kind == "plain" and not line.starter):
        return list(argv), ""
    return [*line.python, *(word.text for word in line.words)], line.ranks or ""


def ranks_of(root: Path, path: Path, work: Path) -> tuple[str, list[str]]:
    """Return how a script was taken, and what its ranks get otherwise."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        if job_from_script(text, path.name).whole_because:
            return "stays whole", []
        script, comments = rendered(work / path.name, text)
    except HpckitError:
        return "refused", []
    after = calls(root, script)
    launch = after[-1] if after else Call((), {})
    if any("/" in word for word in launch.argv[:1]):
        program = root / launch.argv[0].lstrip("/")
        program.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "stubs/other", program)
    before = calls(root, text)
    if not before or not after:
        return "taken apart, starts nothing here", []
    same = [at for at, one in enumerate(before) if one.argv == launch.argv]
    if not same:
        nearest = [one for one in before if one.argv[:1] == launch.argv[:1]] or before
        pairs = enumerate(zip_longest(nearest[-1].argv, launch.argv))
        number, (old, new) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
        return "taken apart, differs", [f"words from {number} on: {old!r} → {new!r}"]
    at = same[-1]
    differs = [*variables(before[at].environ, launch.environ)]
    if before[at].ranks != launch.ranks:
        differs.append(f"ranks of {launch.argv}: {before[at].ranks} → {launch.ranks}")
    rest = Counter(one.argv for one in before[:at])
    rest.subtract(Counter(one.argv for one in after[:-1]))
    differs += [f"preparation: {count} × {argv}" for argv, count in rest.items() if count]
    if before[at + 1 :] and not any("after the launch" in one for one in comments):
        differs.append("SILENT: calls after the launch")
    return f"taken apart, {'differs' if differs else 'the same'}", differs


def variables(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that differ; hpckit's own count where the script has its own."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if name in MEETING and (old is None or new is not None):
            continue
        if old != new:
            yield f"variable {name}: {old!r} → {new!r}"


if __name__ == "__main__":
    main()
