"""`hpckit submit --local` from the shell to the end of the job, nothing imitated."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.begun import INTERRUPTED, begun, interrupted, unmeasured
from tests.conftest import RunHpckit
from tests.fakes.local_job import processes_of, until
from tests.sizes import size, some


def submit_json(run_hpckit: RunHpckit, *args: str, **more: Any) -> dict[str, Any]:
    """The document of a submission that is expected to print one."""
    ran = run_hpckit("submit", "--local", "--json", *args, **more)
    assert ran.stdout, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_the_script_that_ran_is_the_script_that_render_prints(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """The file in the job folder holds the bytes of `hpckit render`, and the digest is theirs."""
    rendered = run_hpckit("render", "--site", "local", "--", "true")
    document = submit_json(run_hpckit, "--wait", "--site", "local", "--", "true")
    assert (Path(document["folder"]) / "job.sbatch").read_text() == rendered.stdout
    assert document["state"] == "COMPLETED"
    shown = run_hpckit("show", document["job_id"], "--script")
    assert shown.stdout == rendered.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("no-such-program-at-all",), 127),
        (("/",), 126),
        (("sh", "-c", "kill -SEGV $$"), 139),
        (("sh", "-c", "kill -KILL $$"), 137),
    ],
)
def test_a_command_keeps_its_own_code(
    run_hpckit: RunHpckit, words: tuple[str, ...], code: int
) -> None:
    """A program that is missing, cannot run, or dies by a signal gives a shell's code for it.

    hpckit itself exits 1.
    """
    ran = run_hpckit("submit", "--local", "--wait", "--json", "--", *words)
    document = json.loads(ran.stdout)
    assert (document["state"], document["exit_code"], ran.returncode) == ("FAILED", code, 1)


def test_output_is_kept_byte_for_byte(run_hpckit: RunHpckit) -> None:
    """Bytes that are not UTF-8 reach the merged log and the rank's log unchanged."""
    document = submit_json(run_hpckit, "--wait", "--", "printf", r"\377\000\n")
    logs = Path(document["folder"]) / "logs"
    assert (logs / "rank-0.log").read_bytes() == b"\xff\x00\n"
    assert (logs / "job.log").read_bytes() == b"\xff\x00\n"


def test_cancel_ends_every_process(run_hpckit: RunHpckit) -> None:
    """A cancelled job is CANCELLED and leaves no process, also of ranks that start more."""
    document = submit_json(
        run_hpckit, "--ntasks-per-node", "2", "--", "sh", "-c", "sleep 600 & setsid sleep 600"
    )
    folder = document["folder"]
    until(lambda: len(processes_of(Path(folder))) >= 6)
    ran = run_hpckit("cancel", document["job_id"], "--json")
    assert json.loads(ran.stdout)["state"] == "CANCELLED", ran.stderr
    until(lambda: processes_of(Path(folder)) == [], 5)


def test_a_job_survives_the_interrupted_wait(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """Ctrl-C while waiting exits 130 and leaves the job running and known."""
    waiting = begun("submit", "--local", "--wait", "--", "sleep", "600")
    jobs: list[dict[str, Any]] = []

    def running() -> bool:
        jobs[:] = json.loads(run_hpckit("jobs", "--json").stdout)["jobs"]
        return bool(jobs) and jobs[0]["state"] == "RUNNING"

    until(running)
    assert "the job goes on" in interrupted(waiting)
    assert waiting.returncode == 130
    assert json.loads(run_hpckit("status", "--json").stdout)["state"] == "RUNNING"
    run_hpckit("cancel", jobs[0]["job_id"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "delay_s", some([0.0, 0.02, 0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 0.9], quick=3)
)
def test_an_interrupted_submission_is_whole_or_nothing(
    run_hpckit: RunHpckit, delay_s: float, number: int
) -> None:
    """Ctrl-C or TERM at any moment leaves a job that is known whole, or no trace."""
    submitting = begun("submit", "--local", "--quiet", "--", "true")
    time.sleep(delay_s)
    if submitting.poll() is None:
        # A terminal signals the whole group.
        (os.killpg if number == signal.SIGINT else os.kill)(submitting.pid, number)
    _, talk = submitting.communicate(timeout=30)
    assert submitting.returncode in (0, -signal.SIGTERM, *INTERRUPTED), talk
    root = Path(os.environ["XDG_STATE_HOME"]) / "hpckit" / "jobs"
    folders = sorted(str(folder) for folder in root.iterdir()) if root.exists() else []
    jobs = json.loads(run_hpckit("jobs", "--json").stdout)["jobs"]
    assert sorted(job["folder"] for job in jobs) == folders
    for job in jobs:
        assert run_hpckit("wait", job["job_id"]).returncode == 0


def test_submissions_from_four_processes(tmp_path: Path) -> None:
    """None is lost in the index, none is mixed up with another."""
    worker = (
        "import json, subprocess, sys\n"
        f"for n in range({size(quick=2, whole=50)}):\n"
        "    name = f'{sys.argv[1]}-{n}'\n"
        "    ran = subprocess.run([sys.executable, '-m', 'hpckit', 'submit', '--local', '--quiet',"
        " '--no-account', '--name', name, '--', 'echo', name], capture_output=True, text=True)\n"
        "    assert ran.returncode == 0, ran.stderr\n"
        "    print(json.dumps([ran.stdout.strip(), name]))\n"
    )

    def run_worker(number: int) -> str:
        return subprocess.run(
            [sys.executable, "-c", worker, f"w{number}"],
            env=unmeasured(),
            capture_output=True,
            text=True,
            check=True,
            timeout=500,
        ).stdout

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(run_worker, range(4)))
    submitted = dict(json.loads(line) for text in outputs for line in text.splitlines())
    assert len(submitted) == size(quick=8, whole=200)

    def listed() -> list[dict[str, Any]]:
        text = subprocess.run(
            [sys.executable, "-m", "hpckit", "jobs", "--all", "--json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        jobs: list[dict[str, Any]] = json.loads(text)["jobs"]
        return jobs

    until(lambda: all(job["state"] == "COMPLETED" for job in listed()), 60)
    jobs = listed()
    assert {job["job_id"]: job["name"] for job in jobs} == submitted
    for job in jobs:
        assert (Path(job["folder"]) / "logs" / "rank-0.log").read_text() == job["name"] + "\n"


def test_held_back_variables_do_not_reach_the_job(run_hpckit: RunHpckit) -> None:
    """A stale NCCL variable is held back and named; --pass lets it through; SLURM_CONF stays."""
    env = {"NCCL_IB_HCA": "mlx5_9", "NCCL_DEBUG": "INFO", "SLURM_CPU_BIND": "x", "SLURM_CONF": "/c"}
    document = submit_json(run_hpckit, "--wait", "--pass", "NCCL_DEBUG", "--", "env", env=env)
    seen = (Path(document["folder"]) / "logs" / "rank-0.log").read_text()
    assert document["held_back"] == ["NCCL_IB_HCA", "SLURM_CPU_BIND"]
    assert "NCCL_DEBUG=INFO" in seen
    assert "SLURM_CONF=/c" in seen
    assert "NCCL_IB_HCA" not in seen
    assert "SUBMITIT" not in seen
    assert "CUDA_VISIBLE_DEVICES" not in seen


def test_logs_follow_a_job_to_its_end(run_hpckit: RunHpckit) -> None:
    """`logs -f` gives the whole output once and ends with the job; --rank gives one rank's."""
    script = "for i in 1 2 3 4; do echo $RANK-$i; sleep 0.2; done"
    document = submit_json(run_hpckit, "--ntasks-per-node", "2", "--", "sh", "-c", script)
    merged = run_hpckit("logs", "-f", document["job_id"]).stdout
    assert sorted(merged.split()) == sorted(f"{r}-{i}" for r in (0, 1) for i in (1, 2, 3, 4))
    assert run_hpckit("logs", "--rank", "1").stdout.split() == ["1-1", "1-2", "1-3", "1-4"]
    missing = run_hpckit("logs", "--rank", "9")
    assert missing.returncode == 1
    assert "ranks with a log: 0-1" in missing.stderr


def test_the_example_runs_from_any_folder(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """Four ranks of the example exchange data and each says that its sum is right."""
    example = Path(__file__).parents[2] / "examples" / "allreduce" / "job.toml"
    document = submit_json(run_hpckit, "--wait", str(example), cwd=tmp_path)
    assert document["state"] == "COMPLETED"
    logs = Path(document["folder"]) / "logs"
    for rank in range(4):
        assert f"rank {rank} of 4" in (logs / f"rank-{rank}.log").read_text()
