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
from typing import Any

import pytest

from hpckit.account.sample_format import EVENTS, GPU, HOST, META, Block, Damage, read_blocks
from hpckit.sampler.main import wish_of
from tests.fakes.nvml_library import HEAD, build_fake_nvml
from tests.sizes import size

Start = Callable[..., "subprocess.Popen[bytes]"]

GPUS = 'gpus = 2\n[gpu]\nname = "NVIDIA H100 80GB HBM3"\npower_w = 500\n'
LIMIT_S = 60.0


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

    def meta(self) -> dict[str, Any]:
        """The first META."""
        found: dict[str, Any] = json.loads(bytes(self.blocks()[0].payload))
        return found

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


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake library."""
    return build_fake_nvml(tmp_path_factory.mktemp("fake-nvml"))


@pytest.fixture
def gpus(fake_nvml: Path, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment of a node with GPUs of a profile."""

    def environment(text: str = GPUS) -> dict[str, str]:
        path = tmp_path / "gpus.toml"
        path.write_text(HEAD + text)
        return {"LD_LIBRARY_PATH": str(fake_nvml), "HPCKIT_FAKE_NVML": str(path)}

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
    assert [event["event"] for event in job.events()] == ["begin", "end"]


def test_node_without_a_driver_is_sampled(job: Job) -> None:
    """Without NVML META says why there is no GPU, and host columns are written."""
    code, err = ended(job.sample("--duration", "0.1"))
    assert (code, err) == (0, "")
    assert job.meta()["gpus"] == []
    assert "nvidia" in job.meta()["host_refused"]
    assert any(block.header.kind == HOST for block in job.blocks())


def test_incarnation_and_array_task_have_their_folder(job: Job) -> None:
    """A requeued array task writes where its restart belongs."""
    env = {"SLURM_RESTART_COUNT": "2", "SLURM_ARRAY_TASK_ID": "5"}
    ended(job.sample("--duration", "0.1", env=env))
    assert job.file("array-5/restart-2").exists()


def test_nothing_is_left_on_the_node(job: Job) -> None:
    """The file on the node is removed once the job folder has all."""
    ended(job.sample("--duration", "0.1"))
    assert list(job.folder.parent.glob("hpckit-samples-*")) == []


def test_nothing_is_left_of_a_killed_sampler(job: Job) -> None:
    """After kill -9 there is no file on the node."""
    process = job.sample("--hz", "20")
    job.wait_for_samples(process)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert list(job.folder.parent.glob("hpckit-samples-*")) == []


def test_gpus_of_the_step_alone(job: Job, gpus: Callable[[], dict[str, str]]) -> None:
    """In a job the visible GPUs are sampled."""
    env = {**gpus(), **slurm("41", CUDA_VISIBLE_DEVICES="1")}
    ended(job.sample("--duration", "0.1", env=env))
    assert [gpu["index"] for gpu in job.meta()["gpus"]] == [1]


def test_job_without_gpus_samples_none(job: Job, gpus: Callable[[], dict[str, str]]) -> None:
    """A job that was given no GPU looks at nobody's."""
    ended(job.sample("--duration", "0.1", env={**gpus(), **slurm("42")}))
    assert job.meta()["gpus"] == []
    assert "SLURM_STEP_GPUS" in job.meta()["host_refused"]["nvidia"]


def test_it_goes_before_any_rank_when_memory_is_out(job: Job) -> None:
    """Its memory is charged to the job: the kernel is to end it first."""
    process = job.sample("--hz", "20")
    job.wait_for_samples(process)
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n"
    process.terminate()
    assert ended(process)[0] == 0


def test_term_ends_it_quickly(job: Job) -> None:
    """TERM flushes and ends, with exit code 0."""
    process = job.sample("--hz", "0.01")
    job.wait_for_samples(process)
    begun = time.monotonic()
    process.terminate()
    assert ended(process) == (0, "")
    assert time.monotonic() - begun < 30
    assert job.events()[-1]["reason"] == "signal"


@pytest.mark.parametrize("name", ["USR1", "USR2", "HUP", "INT", "QUIT", "URG", "ALRM", "RTMIN"])
def test_jobs_signals_do_not_end_it(job: Job, name: str) -> None:
    """What --signal and scancel send to all steps is for the application."""
    process = job.sample("--hz", "20")
    job.wait_for_samples(process)
    process.send_signal(signal.Signals[f"SIG{name}"])
    time.sleep(0.2)
    assert process.poll() is None
    process.terminate()
    assert ended(process)[0] == 0


def test_suspension_does_not_end_it(job: Job) -> None:
    """After STOP and CONT, as `scontrol suspend` and `resume` send them, sampling goes on."""
    process = job.sample("--hz", "1")
    job.wait_for_samples(process)
    time.sleep(0.3)
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    assert process.poll() is None
    process.terminate()
    assert ended(process) == (0, "")
    assert [event["event"] for event in job.events()] == ["begin", "gap", "end"]


def test_ctrl_c_ends_it_by_hand(job: Job) -> None:
    """By hand INT is the end, and what was written is said."""
    process = job.sample("--hz", "20", "--by-hand")
    job.wait_for_samples(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, b"")
    assert b"next   hpckit report --from" in out


def test_by_hand_it_says_why_there_is_no_gpu(job: Job, tmp_path: Path) -> None:
    """Where NVML shows no GPU, what was written is the host alone, and the reason is said."""
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    env = {"LD_LIBRARY_PATH": str(tmp_path), "HPCKIT_TOPOLOGY": "0"}
    process = job.sample("--hz", "20", "--by-hand", "--duration", "0.5", env=env)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert b"samples of the host alone" in out
    assert b"note   no GPU: NVML LibraryNotFound" in out


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


def test_own_step_is_not_waited_for(job: Job, rank: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A process of the sampler's own step, or of another job, is no rank."""
    rank("44", "9")
    rank("45")
    process = job.sample("--hz", "5", env=slurm("44"))
    job.wait_for_samples(process)
    begun = time.monotonic()
    process.terminate()
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
    code, err = ended(job.sample("--duration", "0.1"))
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


HANGS = """
import sys
from hpckit.adapters import sample_guard
sample_guard.BEGIN_LIMIT_S = sample_guard.LIMIT_S = 2.0
from hpckit.injob.main import main
sys.exit(main(sys.argv[1:]))
"""


def hanging(
    job: Job, env: Mapping[str, str], script: Path, before: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """A sampler that waits 2 s for a driver; `before` is run in it first."""
    script.write_text(before + HANGS)
    words = ["sample", "--out", str(job.folder), "--hz", "5", "--duration", "1"]
    return subprocess.run(
        [sys.executable, str(script), *words],
        env={**os.environ, **env, **job.env, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


ONE_HANGS = GPUS + '[gpu.1]\nerror.nvmlDeviceGetFieldValues = "Hang"\n'


def test_gpu_whose_call_hangs_is_left_out(
    job: Job, gpus: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """The sampler begins again without it, and the other GPU is sampled."""
    ran = hanging(job, gpus(ONE_HANGS), tmp_path / "hangs.py")
    assert ran.returncode == 0
    assert b"does not answer" in ran.stderr
    assert [gpu["index"] for gpu in job.meta()["gpus"]] == [0]
    assert "gpu-lost" in {event["event"] for event in job.events()}


NO_EXEC = """
import os
def execv(*_):
    raise OSError(7, "Argument list too long")
os.execv = execv
"""
NO_THREAD = """
import threading
class Refused(threading.Thread):
    def start(self):
        if not self.name.startswith("hpckit-"):
            raise RuntimeError("can't start new thread")
        super().start()
threading.Thread = Refused
"""


@pytest.mark.parametrize(
    ("lack", "said"), [(NO_EXEC, b"sampling ends here"), (NO_THREAD, b"")], ids=["exec", "thread"]
)
def test_what_cannot_begin_again_ends(
    job: Job, gpus: Callable[[str], dict[str, str]], tmp_path: Path, lack: str, said: bytes
) -> None:
    """Beside a call that hangs nothing else hears TERM: without exec or threads it ends at once."""
    ran = hanging(job, gpus(ONE_HANGS), tmp_path / "hangs.py", lack)
    assert ran.returncode == 0
    assert said in ran.stderr


def test_term_is_heard_while_a_call_hangs(job: Job, gpus: Callable[[str], dict[str, str]]) -> None:
    """A driver that does not return keeps no step alive: UnkillableStepTimeout drains nodes."""
    env = gpus(GPUS + 'error.nvmlDeviceGetFieldValues = "Hang"\n')
    process = job.sample(env=env)
    time.sleep(1.5)
    begun = time.monotonic()
    process.terminate()
    assert ended(process)[0] == 0
    assert time.monotonic() - begun < 30


DEAD_LOCAL_FOLDER = """
import os, sys, time
from hpckit.adapters import sample_guard
sample_guard.ASKED_LIMIT_S = 2.0
write = os.pwrite
def pwrite(fd, data, at):
    while os.path.exists(os.environ["DEAD"]):
        time.sleep(0.1)
    return write(fd, data, at)
os.pwrite = pwrite
from hpckit.injob.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_dead_local_folder_delays_no_end(job: Job, tmp_path: Path) -> None:
    """Where the write on this node hangs, TERM ends the sampler all the same."""
    dead = tmp_path / "dead"
    script = tmp_path / "dead.py"
    script.write_text(DEAD_LOCAL_FOLDER)
    env = {**os.environ, **job.env, "PYTHONPATH": str(Path(__file__).parents[3]), "DEAD": str(dead)}
    words = [sys.executable, str(script), "sample", "--out", str(job.folder)]
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE) as process:
        try:
            job.wait_for_samples(process)
            dead.touch()
            process.terminate()
            code, err = ended(process)
        finally:
            process.kill()
    assert code == 0
    assert "a write on this node did not return" in err
    assert "driver" not in err


DEAD_SYSTEM = """
import sys, time
from hpckit.adapters import host_counters, sample_guard
sample_guard.LIMIT_S = 2.0
def read(self):
    time.sleep(300)
host_counters.HostSources.read = read
from hpckit.injob.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_call_that_hangs_is_said(job: Job, tmp_path: Path) -> None:
    """Where something of the node hangs sampling ends, with a line and an event."""
    script = tmp_path / "dead.py"
    script.write_text(DEAD_SYSTEM)
    ran = subprocess.run(
        [sys.executable, str(script), "sample", "--out", str(job.folder)],
        env={**os.environ, **job.env, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0
    assert b"a call of the system did not return for" in ran.stderr
    assert job.events()[-1]["reason"] == "hung"


@pytest.mark.parametrize(("duration", "code"), [("600", 7), ("1", 0)])
def test_early_end_is_no_success_by_hand(
    job: Job, tmp_path: Path, duration: str, code: int
) -> None:
    """By hand a sampler that hung says what it has, and fails unless its time was over."""
    script = tmp_path / "dead.py"
    # A disk that others are busy with is none of this.
    script.write_text(f"import os; os.fdatasync = lambda fd: None{DEAD_SYSTEM}")
    words = ["sample", "--out", str(job.folder), "--duration", duration, "--by-hand"]
    ran = subprocess.run(
        [sys.executable, str(script), *words],
        env={**os.environ, **job.env, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    assert f" wrote  1 samples of the host alone · {job.file()}".encode() in ran.stdout


def test_what_a_hung_sampler_cannot_say_is_no_success(job: Job, tmp_path: Path) -> None:
    """Where its time was over, and its output takes nothing, that is said in a line."""
    script = tmp_path / "dead.py"
    script.write_text(f"import os; os.fdatasync = lambda fd: None{DEAD_SYSTEM}")
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, str(script), "sample", "--out", str(job.folder), "--duration", "1",
             "--by-hand"],
            env={**os.environ, **job.env, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )  # fmt: skip
    assert ran.returncode == 7
    assert b"standard output: No space left on device" in ran.stderr
    assert b"Traceback" not in ran.stderr


def kill_at_a_random_moment(job: Job, seed: int) -> None:
    """Kill a sampler at 100 Hz, and find every block whole but for the last."""
    process = job.sample("--hz", "100")
    job.wait_for_samples(process)
    time.sleep(random.Random(seed).random() * 0.3)  # noqa: S311
    process.kill()
    process.communicate(timeout=LIMIT_S)
    found = list(read_blocks(job.file().read_bytes()))
    damages = [one for one in found if isinstance(one, Damage)]
    assert all(one.is_tail for one in damages[-1:])
    assert [one.header.sequence for one in found if isinstance(one, Block)] == list(
        range(len(found) - len(damages))
    )


def test_killed_at_any_moment_it_can_be_read(job: Job) -> None:
    """After kill -9 the file is read to its last whole block, and the next sampler goes on.

    `make bench SUITE=account` kills a thousand.
    """
    for seed in range(size(quick=3, whole=100)):
        kill_at_a_random_moment(job, seed)


@pytest.mark.slow
def test_killed_sampler_loses_one_period_at_most(job: Job) -> None:
    """What is older than 5 s at a kill is in the job folder."""
    process = job.sample("--hz", "10")
    job.wait_for_samples(process)
    time.sleep(7)
    process.kill()
    killed_ns = time.monotonic_ns()
    process.communicate(timeout=LIMIT_S)
    written = [block.header.monotonic_ns for block in job.blocks()]
    assert killed_ns - max(written) < 2 * 5e9


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--hz", "1"],
        ["--out"],
        ["--out", "d", "--hz", "fast"],
        ["--out", "d", "--hz", "101"],
        ["--out", "d", "--hz", "0.001"],
        ["--out", "d", "--out", "e"],
        ["--out", "d", "--surprise", "1"],
        ["--out", "d", "--duration", "inf"],
        ["--out", "d", "--duration", "0"],
        ["--out", "d", "--parent", "me"],
    ],
)
def test_wrong_command_lines(words: list[str]) -> None:
    """What is no command line of the sampler is refused."""
    assert wish_of(words) is None


def test_command_line_can_be_said_again() -> None:
    """A sampler that begins again asks for what it was asked."""
    words = ["--out", "d", "--hz", "2.5", "--duration", "60.0", "--parent", "17"]
    wish = wish_of([*words, "--without", "GPU-1,GPU-2", "--by-hand"])
    assert wish is not None
    assert wish_of(wish.words()) == wish
