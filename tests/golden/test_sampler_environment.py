"""What of the job's environment the sampler's step has: the lines of a golden script, run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "cases" / "docker-plain-one-node" / "expected.sbatch"
# The step is not started: its environment is what it would write to its log.
BEFORE = "setsid() { env; }\nhpckit_agent=(agent)\nset -eu\nexec 3>&1\n"
KEPT = {"SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/slurm.conf", "HOME": "/home/ana"}


def environment(folder: Path, **job: str) -> dict[str, str]:
    """The step's environment in a job whose script has these variables."""
    text = SCRIPT.read_text()
    begin = text.index("  [[ ${HPCKIT_JOB_FOLDER:-}")
    block = text[begin : text.index(") || :", begin) + len(") || :")]
    (folder / "logs").mkdir()
    env = {"PATH": "/usr/bin:/bin", "HPCKIT_JOB_FOLDER": str(folder), **KEPT, **job}
    words = ["bash", "-c", BEFORE + block]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()  # its descriptor 3 is the step's too, which nobody waits for
        assert process.wait(60) == 0
    said = (folder / "logs" / "sampler.log").read_text()
    return dict(line.split("=", 1) for line in said.splitlines())


@pytest.mark.parametrize(
    "name",
    [
        *("SRUN_OUTPUT", "SRUN_CONTAINER", "SRUN_CPUS_PER_TASK", "SLURM_STDOUTMODE"),
        *("SLURM_CONTAINER", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_CPU", "SLURM_TASK_PROLOG"),
        "LD_PRELOAD",
    ],
)
def test_what_srun_would_obey_is_not_there(tmp_path: Path, name: str) -> None:
    """It is meant for the command's step; an output file would even be begun anew."""
    found = environment(tmp_path, **{name: ""})
    assert name not in found
    assert KEPT.items() <= found.items()


def test_what_the_job_has_of_memory_is_told(tmp_path: Path) -> None:
    """The step has no limit of its own, so that it is told the job's."""
    assert environment(tmp_path, SLURM_MEM_PER_CPU="100")["HPCKIT_MEM_PER_CPU"] == "100"
