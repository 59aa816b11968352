"""The containers of docker/, as the tests use them."""

from __future__ import annotations

import functools
import itertools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TypeVar

CHECKOUT = Path(__file__).resolve().parents[2]
COVERAGE_CONFIG = "/etc/hpckit-cluster/coverage.ini"
COVERAGE_DATA = "/shared/coverage"
FRAMEWORKS = (
    "torch==2.13.0 numpy accelerate==1.15.0 jax==0.10.2 tensorflow-cpu==2.21.0 ray==2.60.0"
    " source:deepspeed==0.19.8"
)
"""What pip installs on Debian 12, whose own PyTorch lacks torchrun's libuv."""
OWN = "hpckit-test-"
"""What a test run starts is called so, and by the number of its process."""
TIMED_OUT = 124
"""What `timeout` exits with."""

T = TypeVar("T")
_starts = itertools.count()


def eventually(check: Callable[[], T], *, timeout_s: float = 120, every_s: float = 0.2) -> T:
    """The first true answer of `check`, or its last answer when the time is up."""
    deadline = time.monotonic() + timeout_s
    while not (answer := check()) and time.monotonic() < deadline:
        time.sleep(every_s)
    return answer


@functools.cache
def _init_of(container: str) -> Path | None:
    """Return the first process of a container, None where root of this machine does not see it."""
    words = ["docker", "inspect", "--format={{.State.Pid}}", container]
    told = subprocess.run(words, capture_output=True, encoding="ascii", timeout=60, check=False)
    init = Path("/proc", told.stdout.strip() or "0")
    return init if (init / "environ").exists() else None


class Background(subprocess.Popen[str]):
    """A command that runs inside a host; its signals go to the command, not to docker's client."""

    pid_file: str
    signaller: Sequence[str]

    def send_signal(self, sig: int) -> None:
        """Deliver `sig` to the command inside the host."""
        name = signal.Signals(sig).name.removeprefix("SIG")
        script = 'kill -s "$1" "$(cat "$2")"'
        subprocess.run(
            [*self.signaller, "sh", "-c", script, "sh", name, self.pid_file],
            check=True,
            timeout=10,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Hosts that are containers, and commands on them; `login` is where a user is.

    Attributes:
        name: the first part of the containers' names.
        environ: the environment of the test run, before any test has changed it.
        coverage: whether what runs inside measures itself.
    """

    name: str
    environ: Mapping[str, str] = field(repr=False)
    coverage: bool = False

    @property
    def untraced(self) -> Self:
        """The same hosts, where nothing measures itself: for what runs very often, or is timed."""
        return replace(self, coverage=False)

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "alice",
        host: str = "login",
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout_s: float = 60,
        cwd: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `argv` as `user` on `host` to its end; it does not outlive `timeout_s`.

        Raises:
            subprocess.TimeoutExpired: it was still running, and was ended.
        """
        limited = ["timeout", "--kill-after=5", str(timeout_s), *argv]
        done = subprocess.run(
            [*self._enter(user, host, env, cwd), *limited],
            env=self.environ,
            input=input or "",
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s + 10,
            check=False,
        )
        if done.returncode == TIMED_OUT:
            raise subprocess.TimeoutExpired(list(argv), timeout_s, done.stdout, done.stderr)
        return done

    def start(
        self,
        argv: Sequence[str],
        *,
        user: str = "alice",
        host: str = "login",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Background:
        """Start `argv` and return at once; signals sent to the result reach it inside."""
        pid_file = f"/tmp/hpckit-test-{next(_starts)}-{time.monotonic_ns()}.pid"
        script = 'echo $$ >"$0"; exec "$@"'
        started = Background(
            [*self._enter(user, host, env, cwd), "sh", "-c", script, pid_file, *argv],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        started.pid_file = pid_file
        started.signaller = self._enter("root", host, None, None)
        return started

    def check(self, argv: Sequence[str], *, user: str = "alice", host: str = "login") -> str:
        """What `argv` prints, which has to succeed."""
        done = self.run(argv, user=user, host=host)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def read(self, path: str) -> str:
        """The text of `path` as the login host sees it."""
        return self.check(["cat", path], user="root")

    def _enter(
        self, user: str, host: str, env: Mapping[str, str] | None, cwd: str | None
    ) -> list[str]:
        home = "/root" if user == "root" else f"/home/{user}"
        variables = {"USER": user, "LOGNAME": user, "HOME": home}
        if self.coverage:
            variables["COVERAGE_PROCESS_START"] = COVERAGE_CONFIG
        pairs = [f"{name}={value}" for name, value in {**variables, **(env or {})}.items()]
        container = f"{self.name}-{host}"
        init = None if os.geteuid() else _init_of(container)
        if init is None:
            options = ["--interactive", "--user", user, "--workdir", cwd or home]
            options += [f"--env={pair}" for pair in pairs]
            return ["docker", "exec", *options, container]
        # The same at a twentieth of the work: a whole run enters its hosts thousands of times.
        spaces = [f"--{kind}" for kind in ("mount", "uts", "ipc", "net", "pid")]
        own = (init / "environ").read_text().split("\0")[:-1]
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        clean = ["env", "--ignore-environment", f"--chdir={cwd or home}", *own, *pairs]
        return ["nsenter", f"--target={init.name}", *spaces, *as_user, *clean]

    def _docker(self, *args: str) -> str:
        _init_of.cache_clear()  # it may be stopped, or started again
        done = subprocess.run(
            ["docker", *args],
            env=self.environ,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"docker {' '.join(args)}: {done.stderr}"
        return done.stdout.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(Containers):
    """The cluster that is up.

    Attributes:
        nodes: the compute nodes' names.
    """

    nodes: tuple[str, ...]

    @property
    def image(self) -> str:
        """The image of its hosts, which has this checkout's hpckit."""
        return self._docker("inspect", "--format={{.Image}}", f"{self.name}-login")

    def stop(self, host: str) -> None:
        """Stop `host` as an operator would; its daemons save their state."""
        self._docker("stop", f"{self.name}-{host}")

    def kill(self, host: str) -> None:
        """Take `host` down as a power failure would."""
        self._docker("kill", f"{self.name}-{host}")

    def start_host(self, host: str) -> None:
        """Start `host` again after `stop` or `kill`."""
        self._docker("start", f"{self.name}-{host}")

    def restart(self, host: str) -> None:
        """Stop `host`, and start it again."""
        self._docker("restart", f"{self.name}-{host}")

    def wait_idle(self) -> None:
        """Wait until slurmctld answers and no node has a job."""
        script = str(CHECKOUT / "docker" / "cluster")
        subprocess.run([script, "wait-idle"], env=self.environ, check=True, timeout=150)

    def copy_in(self, path: Path, dest: str, user: str = "alice") -> None:
        """Copy the file `path` to `dest` in the folders that all hosts share, owned by `user`."""
        self._docker("cp", str(path), f"{self.name}-login:{dest}")
        self.check(["chown", "-R", f"{user}:{user}", dest], user="root")

    def clear_coverage(self) -> None:
        """Forget what was measured inside."""
        self.check(["find", COVERAGE_DATA, "-type", "f", "-delete"], user="root")

    def bring_coverage(self, folder: Path) -> None:
        """Copy what was measured inside to `folder`, as `.coverage.cluster-*`."""
        with tempfile.TemporaryDirectory() as scratch:
            self._docker("cp", f"{self.name}-login:{COVERAGE_DATA}/.", scratch)
            for path in Path(scratch).iterdir():
                if path.stat().st_size:
                    target = folder / f".coverage.cluster-{path.name.removeprefix('.coverage.')}"
                    target.write_bytes(path.read_bytes())


@contextmanager
def stopped(cluster: Cluster, host: str) -> Iterator[None]:
    """The time without `host`; afterwards Slurm and its accounts answer again."""
    cluster.stop(host)
    try:
        yield
    finally:
        cluster.start_host(host)
        back = ["sacctmgr", "--noheader", "show", "cluster"]
        answers = eventually(lambda: cluster.run(back).returncode == 0, timeout_s=180)
        cluster.wait_idle()
        assert answers, "slurmdbd has not come back"
