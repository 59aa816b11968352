"""A Ray cluster of one step: the head and the program on the first node, a worker on each other.

`ray symmetric-run` of Ray 2.49 and later does the like, but refuses a node that has a Ray of
another job, and ends that one too (`ray stop`): here nodes may be shared.
Source: ray start --help, and ray/scripts/symmetric_run.py of Ray 2.60.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import time

from hpckit.core.files_in_job import make_folders
from hpckit.core.talk import reason, say
from hpckit.injob.entry import not_started
from hpckit.injob.port import claim_port

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

_START_S = 120.0
_POLL_S = 0.5
_GONE_AFTER = 4
"""After so many refusals in a row the head has ended: nothing listens there any more."""
_LOST_S = 30.0
"""After so long without any answer the head's node is lost."""
_KILL_WAIT_S = 10.0
_PORTS = (
    *("--node-manager-port", "--object-manager-port", "--metrics-export-port"),
    *("--dashboard-agent-listen-port", "--dashboard-agent-grpc-port", "--runtime-env-agent-port"),
)
"""Of each node, and of the head one more; all have defaults, or are drawn without a look."""
_HEAD_PORT = "--ray-client-server-port"
_MOST_LOG_BYTES = 1024**2
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_SIGNALS = (*_ENDING, signal.SIGUSR1, signal.SIGUSR2)
_STORE_SHARE = 0.3
"""Ray's own: of a node's memory for objects, the rest for tasks."""
_LEAST_STORE_BYTES = 75 * 1024**2
"""Ray takes no smaller one."""
_ALL_THERE = """
import sys, time, ray
ray.init(logging_level="ERROR", log_to_driver=False)
until = time.monotonic() + float(sys.argv[2])
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    if time.monotonic() > until:
        sys.exit(1)
    time.sleep(0.2)
"""


def ray(words: list[str], env: dict[str, str]) -> int | None:
    """Run this node's part of Ray; return the program's code on the first node, 0 on others.

    None when `words` is no command line. 1 where Ray does not start, or ends before the program.
    """
    if words[:1] != ["--"] or not words[1:]:
        return None
    node = _Node(env)
    for number in _SIGNALS:
        signal.signal(number, node.hear)
    code = 1
    try:
        node.make_folder()
        code = node.head(words[1:]) if env.get("RANK", "0") == "0" else node.worker()
    except _Missing as missing:
        code = not_started(missing.program, None, missing.error, None)
    except _Ended as ended:
        say(f"ray on {node.host}: {ended}")
    finally:
        node.end(keeps_logs=code != 0)
    return code


class _Ended(Exception):
    """There is no Ray on this node, or not any more: why."""


class _Missing(Exception):
    def __init__(self, program: str, error: OSError) -> None:
        self.program, self.error = program, error
        super().__init__(program)


class _Node:
    """This node's Ray, whose ports and folder are of this job alone."""

    def __init__(self, env: dict[str, str]) -> None:
        self.host = env.get("SLURMD_NODENAME") or os.uname().nodename
        self._address = (env.get("MASTER_ADDR", ""), int(env.get("MASTER_PORT") or 0))
        self._env = {**env, "RAY_ADDRESS": f"{self._address[0]}:{self._address[1]}"}
        # Asked to end, it would look for a head that may be gone already.
        self._env.setdefault("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0")
        devices = env.get("ROCR_VISIBLE_DEVICES")
        if devices and "HIP_VISIBLE_DEVICES" not in env:
            # Ray refuses Slurm's variable alone; HIP counts from 0 within it.
            self._env["HIP_VISIBLE_DEVICES"] = ",".join(map(str, range(len(devices.split(",")))))
        self._nodes = int(env.get("WORLD_SIZE") or 1)
        # Its sockets have paths of at most 107 bytes (unix(7)), which the job folder's is not; and
        # all nodes have the same, which is the head's to say.
        job = env.get("SLURM_JOB_ID") or env.get("HPCKIT_JOB_ID") or os.getpid()
        self._folder = f"/tmp/hpckit-ray-{os.getuid()}-{job}"  # noqa: S108  ours, or refused
        self._program: subprocess.Popen[bytes] | None = None
        self._ray: subprocess.Popen[bytes] | None = None
        self._names: list[socket.socket] = []
        self._asked_to_end: int | None = None

    def make_folder(self) -> None:
        """Make the folder of Ray's sockets and logs, unless it is this user's already."""
        try:
            os.mkdir(self._folder, 0o700)
        except FileExistsError:
            there = os.lstat(self._folder)
            if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid():
                raise _Ended(f"{self._folder} belongs to another user") from None
        except OSError as error:
            raise _Ended(f"{self._folder}: {reason(error)}") from None

    def head(self, command: Sequence[str]) -> int:
        """Start the head, wait for the other nodes, run the program."""
        port = f"--port={self._address[1]}"
        client, folder = self._claimed(len(_PORTS), _HEAD_PORT), f"--temp-dir={self._folder}"
        self._start("--head", port, client, folder, "--include-dashboard=false")
        self._await_head()
        waits = ["python3", "-c", _ALL_THERE, str(self._nodes), f"{_START_S:g}"]
        if self._nodes > 1 and self._run(waits):
            raise _Ended(f"not all {self._nodes} nodes joined within {_START_S:g} s")
        return self._run(command)

    def worker(self) -> int:
        """Start a worker, and end it when the head has ended: what ends the job is the program.

        A signal is the program's to answer, which may want to save its work first.
        """
        self._await_head()
        self._start(f"--address={self._env['RAY_ADDRESS']}")
        refused, answered_s = 0, time.monotonic()
        while refused < _GONE_AFTER:
            time.sleep(_POLL_S)
            try:
                self._ask()
            except ConnectionRefusedError:
                refused += 1
            except OSError as error:
                refused = 0
                if time.monotonic() - answered_s > _LOST_S:
                    raise _Ended(f"lost the connection to the head: {reason(error)}") from None
            else:
                refused, answered_s = 0, time.monotonic()
                self._look()
        return 0

    def hear(self, number: int, _frame: object) -> None:
        """Hand a signal on to the program."""
        self._asked_to_end = number if number in _ENDING else self._asked_to_end
        self._pass_on(number)

    def _pass_on(self, number: int | None) -> None:
        if number is not None and self._program is not None and self._program.poll() is None:
            self._program.send_signal(number)

    def end(self, *, keeps_logs: bool) -> None:
        """End this node's Ray, and no other job's; its own logs go to the job folder if wanted."""
        for process in (self._program, self._ray):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(_KILL_WAIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
        if keeps_logs:
            self._keep_logs()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _keep_logs(self) -> None:
        logs, job = f"{self._folder}/session_latest/logs", self._env.get("HPCKIT_JOB_FOLDER")
        kept = f"{job}/logs/ray-{self.host}"
        if not job or not os.path.isdir(logs):
            return
        try:
            make_folders(kept)
            with os.scandir(logs) as found:
                for one in found:
                    if one.is_file() and 0 < one.stat().st_size <= _MOST_LOG_BYTES:
                        shutil.copyfile(one.path, f"{kept}/{one.name}")
        except OSError as error:
            say(f"ray on {self.host}: cannot keep its logs: {error.filename}: {reason(error)}")

    def _start(self, *words: str) -> None:
        sizes = [f"--num-cpus={len(os.sched_getaffinity(0))}"]
        gpus = self._env.get("SLURM_GPUS_ON_NODE", "")
        sizes += [f"--num-gpus={gpus}"] if gpus.isdigit() else []
        sizes += memory_options(self._env)
        ports = [self._claimed(index, option) for index, option in enumerate(_PORTS)]
        self._ray = self._started(
            ["ray", "start", "--block", "--disable-usage-stats", *words, *sizes, *ports], quiet=True
        )

    def _claimed(self, index: int, option: str) -> str:
        claimed = claim_port(self._address[1], index, len(_PORTS) + 1)
        if claimed is None:
            raise _Ended("no free port")
        self._names.append(claimed[1])
        return f"{option}={claimed[0]}"

    def _run(self, command: Sequence[str]) -> int:
        if self._asked_to_end is not None:
            return 128 + self._asked_to_end
        self._program = self._started(command)
        self._pass_on(self._asked_to_end)  # it may have come while the program was being started
        while self._program.poll() is None:
            self._look()
            time.sleep(_POLL_S / 5)
        code = self._program.returncode
        return code if code >= 0 else 128 - code

    def _started(self, command: Sequence[str], *, quiet: bool = False) -> subprocess.Popen[bytes]:
        try:
            if not quiet:
                return subprocess.Popen(command, env=self._env)
            with open(f"{self._folder}/start.log", "wb") as log:
                return subprocess.Popen(
                    command,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            raise _Missing(command[0], error) from None

    def _await_head(self) -> None:
        until = time.monotonic() + _START_S
        while not self._answers():
            if time.monotonic() > until or self._asked_to_end is not None:
                raise _Ended(
                    f"no answer from the head at {self._env['RAY_ADDRESS']} within {_START_S:g} s"
                )
            self._look()
            time.sleep(_POLL_S / 5)

    def _answers(self) -> bool:
        try:
            self._ask()
        except OSError:
            return False
        return True

    def _ask(self) -> None:
        """Raise OSError where the head does not answer; its name is looked up once."""
        with socket.create_connection(self._address, timeout=_POLL_S * 4) as answer:
            self._address = answer.getpeername()[:2]

    def _look(self) -> None:
        """Raise _Ended where this node's Ray has ended by itself."""
        if self._ray is None or self._ray.poll() is None:
            return
        try:
            with open(f"{self._folder}/start.log", encoding="utf-8", errors="replace") as log:
                said = [line.strip() for line in log if line.strip()]
        except OSError:
            said = []
        raise _Ended(" / ".join(["ray ended early", *said[-3:]]))


def memory_options(env: dict[str, str]) -> list[str]:
    """Return what Ray may use of a node's memory, where Slurm gave a part: it sees the machine's.

    Source: sbatch(1), SLURM_MEM_PER_NODE and its like, in MiB; 0 is all.
    """
    for name, count in (
        ("SLURM_MEM_PER_NODE", "1"),
        ("SLURM_MEM_PER_CPU", env.get("SLURM_CPUS_ON_NODE", "")),
        ("SLURM_MEM_PER_GPU", env.get("SLURM_GPUS_ON_NODE", "")),
    ):
        size = env.get(name, "")
        if size.isdigit() and count.isdigit() and int(size):
            given = int(size) * int(count) * 1024**2
            store = int(given * _STORE_SHARE)
            if store < _LEAST_STORE_BYTES:
                return []
            return [f"--object-store-memory={store}", f"--memory={given - store}"]
    return []
