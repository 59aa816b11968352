"""The sampler from the archive, as a job's script starts it; the fake NVML where it is said."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from hpckit.account.sample_format import EVENTS, GPU, HOST, META, Block, Damage, read_blocks
from hpckit.sampler.main import Wish, wish_of
from tests.fakes.nvml_library import HEAD
from tests.sizes import size
from tests.unit.injob.conftest import Start

GPUS = 'gpus = 2\n[gpu]\nname = "NVIDIA H100 80GB HBM3"\npower_w = 500\n'
LIMIT_S = 60.0
PIPE = subprocess.PIPE
SHORT = """
from hpckit.sampler import guard
guard.LIMIT_S = guard.ASKED_LIMIT_S = 2.0
# A busy machine takes seconds for the imports alone.
guard.BEGIN_LIMIT_S = 8.0
"""
QUICK_DISK = """
import os
from hpckit.sampler import main as sampler
# One that others are busy with is waited for, and then left alone.
os.fdatasync = lambda fd: None
sampler._LAST_COPY_S, sampler._in_time.__defaults__ = 20.0, (30.0,)
"""
MAIN = """
import sys
from hpckit.injob.main import main
sys.exit(main(sys.argv[1:]))
"""


class Job:
    """A job folder and what its sampler wrote."""

    def __init__(self, folder: Path, start: Start) -> None:
        self.folder = folder
        self._start = start
        self.env: dict[str, str] = {"SLURMD_NODENAME": "n1", "TMPDIR": str(folder.parent)}

    def sample(self, *words: str, env: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        """Start a sampler."""
        return self._start("sample", "--out", str(self.folder), *words, env={**self.env, **env})

    def file(self, incarnation: str = "restart-0") -> Path:
        """Where its samples are."""
        return self.folder / "account" / incarnation / "node-n1.samples"

    def blocks(self) -> list[Block]:
        """The whole blocks, none while there is no file."""
        try:
            data = self.file().read_bytes()
        except FileNotFoundError:
            return []
        return [one for one in read_blocks(data) if isinstance(one, Block)]

    def events(self) -> list[dict[str, Any]]:
        """All events."""
        return [
            json.loads(line)
            for block in self.blocks()
            if block.header.kind == EVENTS
            for line in bytes(block.payload).splitlines()
        ]

    def ends(self) -> list[str]:
        """The first and the last event: a busy machine has gaps between them."""
        return [event["event"] for event in (self.events()[0], self.events()[-1])]

    def meta(self) -> dict[str, Any]:
        """The first META."""
        found: dict[str, Any] = json.loads(bytes(self.blocks()[0].payload))
        return found

    def left_on_the_node(self) -> list[Path]:
        """The sampler's files in the node's own folder."""
        return list(self.folder.parent.glob("hpckit-samples-*"))

    def after(
        self, code: str, *words: str, env: Mapping[str, str] = {}, stdout: int | IO[str] = PIPE
    ) -> subprocess.Popen[bytes]:
        """Start a sampler in which `code` ran first, and which waits 2 s for what hangs."""
        path = self.folder.parent / "sampler.py"
        path.write_text(f"{SHORT}{code}{MAIN}")
        argv = [sys.executable, str(path), "sample", "--out", str(self.folder), *words]
        root = {"PYTHONPATH": str(Path(__file__).parents[3])}
        given = {**os.environ, **env, **self.env, **root}
        return subprocess.Popen(argv, env=given, stdout=stdout, stderr=PIPE)

    def wait_for_samples(self, process: subprocess.Popen[bytes]) -> None:
        """Return once the begin is in the job folder."""
        end = time.monotonic() + LIMIT_S
        while not self.blocks():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def job(tmp_path: Path, start: Start) -> Job:
    """A job folder."""
    (tmp_path / "job").mkdir()
    return Job(tmp_path / "job", start)


@pytest.fixture
def gpus(library: Path, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment of a node with GPUs of a profile."""

    def environment(text: str = GPUS) -> dict[str, str]:
        path = tmp_path / "gpus.toml"
        path.write_text(HEAD + text)
        return {"LD_LIBRARY_PATH": str(library), "HPCKIT_FAKE_NVML": str(path)}

    return environment


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code and what was said on stderr."""
    _, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, err.decode()


@pytest.fixture
def rank() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process of a job's step, killed at the test's end."""
    started: list[subprocess.Popen[bytes]] = []

    def start_rank(job_id: str, step: str = "0") -> subprocess.Popen[bytes]:
        env = {**os.environ, "SLURM_JOB_ID": job_id, "SLURM_STEP_ID": step}
        code = "import time; time.sleep(300)"
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], env=env)
        started.append(process)
        return process

    yield start_rank
    for process in started:
        process.kill()
        process.wait()


def slurm(job_id: str, **more: str) -> dict[str, str]:
    """The environment of a sampler's step."""
    return {"SLURM_JOB_ID": job_id, "SLURM_STEP_ID": "9", **more}


def test_samples_of_the_archive(job: Job, gpus: Callable[[], dict[str, str]]) -> None:
    """From the archive alone the sampler writes META, GPU, HOST and EVENTS blocks."""
    code, err = ended(job.sample("--hz", "20", "--duration", "0.5", env=gpus()))
    assert (code, err) == (0, "")
    assert {block.header.kind for block in job.blocks()} == {META, GPU, HOST, EVENTS}
    assert [gpu["name"] for gpu in job.meta()["gpus"]] == ["NVIDIA H100 80GB HBM3"] * 2
    assert job.meta()["synthetic"] is True
    assert job.ends() == ["begin", "end"]


def test_incarnation_and_array_task_have_their_folder(job: Job) -> None:
    """A requeued array task writes where its restart belongs, and leaves nothing on the node."""
    env = {"SLURM_RESTART_COUNT": "2", "SLURM_ARRAY_TASK_ID": "5"}
    ended(job.after(QUICK_DISK, "--duration", "0.1", env=env))
    assert job.file("array-5/restart-2").exists()
    assert job.left_on_the_node() == []


def test_gpus_of_the_step_alone(job: Job, gpus: Callable[[], dict[str, str]]) -> None:
    """In a job the visible GPUs are sampled; one that was given none looks at nobody's."""
    env = {**gpus(), **slurm("42")}
    ended(job.sample("--duration", "0.1", env=env))
    assert job.meta()["gpus"] == []
    assert "SLURM_STEP_GPUS" in job.meta()["host_refused"]["nvidia"]
    job.file().unlink()
    ended(job.sample("--duration", "0.1", env={**env, "CUDA_VISIBLE_DEVICES": "1"}))
    assert [gpu["index"] for gpu in job.meta()["gpus"]] == [1]


def test_it_goes_before_any_rank_when_memory_is_out(job: Job) -> None:
    """Its memory is charged to the job: the kernel is to end it first, and leaves nothing of it."""
    process = job.sample("--hz", "20")
    job.wait_for_samples(process)
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n"
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert job.left_on_the_node() == []


def test_term_ends_it_quickly(job: Job) -> None:
    """TERM flushes and ends, with exit code 0."""
    process = job.sample("--hz", "0.01")
    job.wait_for_samples(process)
    begun = time.monotonic()
    process.terminate()
    assert ended(process) == (0, "")
    assert time.monotonic() - begun < 30
    assert job.events()[-1]["reason"] == "signal"


def test_jobs_signals_do_not_end_it(job: Job) -> None:
    """What --signal and scancel send to all steps is for the application."""
    process = job.sample("--hz", "20")
    job.wait_for_samples(process)
    for name in ("USR1", "USR2", "HUP", "INT", "QUIT", "URG", "ALRM", "RTMIN"):
        process.send_signal(signal.Signals[f"SIG{name}"])
    time.sleep(0.2)
    assert process.poll() is None
    process.terminate()
    assert ended(process)[0] == 0


def test_suspension_does_not_end_it(job: Job) -> None:
    """After STOP and CONT, as `scontrol suspend` and `resume` send them, it goes on and says so."""
    process = job.sample("--hz", "1")
    job.wait_for_samples(process)
    time.sleep(0.3)
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert process.poll() is None
    process.terminate()
    assert ended(process) == (0, "")
    assert job.ends() == ["begin", "end"]
    assert "gap" in [event["event"] for event in job.events()]


def test_by_hand_it_says_why_there_is_no_gpu(job: Job, tmp_path: Path) -> None:
    """INT is the end; what was written is said, and why NVML shows no GPU, in META too."""
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    env = {"LD_LIBRARY_PATH": str(tmp_path), "HPCKIT_TOPOLOGY": "0"}
    process = job.sample("--hz", "20", "--by-hand", env=env)
    job.wait_for_samples(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, b"")
    assert b"samples of the host only" in out
    assert b"note   no GPU: NVML LibraryNotFound" in out
    assert b"next   hpckit report --from" in out
    assert (job.meta()["gpus"], job.meta()["host_refused"]["nvidia"]) == ([], "LibraryNotFound")
    assert any(block.header.kind == HOST for block in job.blocks())


def test_ranks_are_waited_for(job: Job, rank: Callable[..., subprocess.Popen[bytes]]) -> None:
    """After TERM sampling goes on until the job's ranks are gone."""
    alive = rank("43")
    process = job.sample("--hz", "5", env=slurm("43"))
    job.wait_for_samples(process)
    process.terminate()
    time.sleep(1)
    assert process.poll() is None
    alive.kill()
    alive.wait()
    begun = time.monotonic()
    assert ended(process)[0] == 0
    assert time.monotonic() - begun < 30


def test_ctrl_c_waits_for_no_ranks(job: Job, rank: Callable[..., subprocess.Popen[bytes]]) -> None:
    """By hand inside a job the end is at once, whatever else the job runs."""
    rank("48")
    process = job.sample("--hz", "5", "--by-hand", env=slurm("48"))
    job.wait_for_samples(process)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 0
    assert time.monotonic() - begun < 30


def test_end_of_the_parent_ends_it(job: Job, rank: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A local job's sampler ends with the process that was named."""
    parent = rank("46")
    process = job.sample("--parent", str(parent.pid))
    job.wait_for_samples(process)
    parent.kill()
    parent.wait()
    assert ended(process)[0] == 0
    assert job.events()[-1]["reason"] == "parent gone"


def test_time_limit_ends_it(job: Job) -> None:
    """When the job's time is over, and no rank is left, so is sampling."""
    env = slurm("47", SLURM_JOB_END_TIME=str(int(time.time()) - 1))
    assert ended(job.sample(env=env))[0] == 0
    assert job.events()[-1]["reason"] == "time limit"


def test_folder_that_is_not_there_fails_nothing(job: Job) -> None:
    """The exit code is 0, one line says why, another where the samples are."""
    job.folder.rmdir()
    code, err = ended(job.sample("--duration", "0.1", env={"HPCKIT_TOPOLOGY": "0"}))
    assert code == 0
    assert len(err.splitlines()) == 2
    assert all(line.startswith("hpckit: sampler on n1: ") for line in err.splitlines())
    assert "No such file or directory" in err


def test_folder_that_hangs_delays_no_end(job: Job) -> None:
    """With a FIFO in place of the file, whose opening waits for ever, TERM still ends it."""
    job.file().parent.mkdir(parents=True)
    os.mkfifo(job.file())
    process = job.sample("--hz", "20")
    time.sleep(1.5)
    begun = time.monotonic()
    process.terminate()
    code, err = ended(process)
    assert code == 0
    assert time.monotonic() - begun < 30
    kept = Path(err.partition("the rest is in ")[2].partition(" on this node")[0])
    assert any(isinstance(one, Block) for one in read_blocks(kept.read_bytes()))


ONE_HANGS = GPUS + '[gpu.1]\nerror.nvmlDeviceGetFieldValues = "Hang"\n'


def test_gpu_whose_call_hangs_is_left_out(job: Job, gpus: Callable[[str], dict[str, str]]) -> None:
    """The sampler begins again without it, and the other GPU is sampled."""
    code, err = ended(job.after("", "--hz", "5", "--duration", "1", env=gpus(ONE_HANGS)))
    assert code == 0
    assert "does not answer" in err
    assert [gpu["index"] for gpu in job.meta()["gpus"]] == [0]
    assert "gpu-lost" in {event["event"] for event in job.events()}


def test_term_is_heard_while_a_call_hangs(job: Job, gpus: Callable[[str], dict[str, str]]) -> None:
    """A driver that does not return keeps no step alive: UnkillableStepTimeout drains nodes."""
    env = gpus(GPUS + 'error.nvmlDeviceGetFieldValues = "Hang"\n')
    process = job.sample(env=env)
    time.sleep(1.5)
    begun = time.monotonic()
    process.terminate()
    assert ended(process)[0] == 0
    assert time.monotonic() - begun < 30


DEAD_SYSTEM = f"""{QUICK_DISK}
import time
from hpckit.sampler import job_counters
job_counters.HostSources.read = lambda self: time.sleep(300)
"""


def test_call_that_hangs_is_said(job: Job) -> None:
    """Where something of the node hangs sampling ends, with a line and an event."""
    code, err = ended(job.after(DEAD_SYSTEM))
    assert code == 0
    assert "a system call did not return for" in err
    assert job.events()[-1]["reason"] == "hung"


@pytest.mark.parametrize(("duration", "code"), [("600", 7), ("1", 0)])
def test_early_end_is_no_success_by_hand(job: Job, duration: str, code: int) -> None:
    """By hand a sampler that hung says what it has, and fails unless its time was over.

    Where its output takes nothing, that is said in a line, and is no success.
    """
    words = ("--duration", duration, "--by-hand")
    process = job.after(DEAD_SYSTEM, *words)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, err
    assert f" wrote  1 samples of the host only · {job.file()}".encode() in out
    with Path("/dev/full").open("w") as full:
        full_code, said = ended(job.after(DEAD_SYSTEM, *words, stdout=full))
    assert full_code == 7
    assert "standard output: No space left on device" in said
    assert "Traceback" not in said


def test_killed_at_any_moment_it_can_be_read(job: Job) -> None:
    """After kill -9 every block is whole but for the last, and the next sampler goes on.

    `make bench SUITE=account` kills a thousand.
    """
    for seed in range(size(quick=3, whole=100)):
        process = job.sample("--hz", "100")
        job.wait_for_samples(process)
        time.sleep(random.Random(seed).random() * 0.3)  # noqa: S311
        process.kill()
        process.communicate(timeout=LIMIT_S)
        found = list(read_blocks(job.file().read_bytes()))
        whole = [block.header.sequence for block in found if isinstance(block, Block)]
        assert whole == list(range(len(whole)))
        assert all(block.is_tail for block in found[-1:] if isinstance(block, Damage))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--hz", "1"],
        ["--out"],
        ["--out", "d", "--hz", "fast"],
        ["--out", "d", "--hz", "101"],
        ["--out", "d", "--hz", "0.001"],
        ["--out", "d", "--surprise", "1"],
        ["--out", "d", "--duration", "inf"],
        ["--out", "d", "--duration", "0"],
        ["--out", "d", "--parent", "me"],
    ],
)
def test_wrong_command_lines(words: list[str]) -> None:
    """What is no command line of the sampler is refused."""
    assert wish_of(words) is None


def test_the_last_word_counts() -> None:
    """A sampler that begins again asks for what it was asked, and for other GPUs and less time."""
    words = ["--out", "d", "--hz", "2.5", "--duration", "60.0", "--parent", "17", "--by-hand"]
    again = ["--without", "GPU-1,GPU-2", "--duration", "9.5"]
    assert wish_of([*words, *again]) == Wish("d", 2.5, 9.5, 17, ("GPU-1", "GPU-2"), by_hand=True)
