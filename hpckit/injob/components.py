"""The components of a heterogeneous job: started in the order of who is ready, ended together.

The batch script has begun a runner for each (`injob run --component`), which waits for a file in
its component's folder; then it becomes this process, whose children they are.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from hpckit.core.files_in_job import make_folders, write_whole
from hpckit.core.talk import reason, say
from hpckit.injob.het_group import own_file, start_file
from hpckit.injob.steps import end_steps, hostnames
from hpckit.injob.supervise import catch_signals, exit_code_of, forward
from hpckit.spec.folder_in_job import COMPONENT_END, SERVE_FILE, component_folder, of_start

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_S = 0.5
_FAILED = 1 << 8
"""The wait status of a process that exits with 1."""
_KILLED = 128 + int(signal.SIGKILL)


class _Component:
    """One component: what the script says of it, and how far it is."""

    def __init__(self, group: int, name: str, pid: int) -> None:
        self.group = group
        self.name = name
        self.pid = pid
        self.is_service = False
        self.after: list[str] = []
        self.port: int | None = None
        self.hosts: Sequence[str] = ()
        self.started_s: float | None = None
        self.is_ready = False
        self.code: int | None = None
        self.was_asked = False

    def take(self, option: str, rest: list[str]) -> None:
        """Take an option, with its value from `rest`. Raises ValueError, IndexError."""
        if option == "--service":
            self.is_service = True
        elif option == "--after":
            self.after = rest.pop(0).split(",")
        elif option == "--port":
            self.port = int(rest.pop(0))
        else:
            raise ValueError(option)


def components(words: list[str], env: dict[str, str]) -> int | None:
    """Start and end the components that `words` name; None where they are no command line.

    `words` are of each component its name, its runner's process, and `--service`, `--after
    NAME,NAME`, `--port PORT` of a server, which is ready once it answers. Returns the code of the
    first that failed.
    """
    read = _read(words)
    if read is None or not env.get("HPCKIT_JOB_FOLDER"):
        return None
    kill_wait_s, parts = read
    wake = catch_signals([signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD])
    for part in parts:
        list_of_nodes = env.get(f"SLURM_JOB_NODELIST_HET_GROUP_{part.group}", "")
        part.hosts = hostnames(list_of_nodes, env)
    code = _Group(parts, env, wake, kill_wait_s).run()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    return code


def _read(words: list[str]) -> tuple[int, list[_Component]] | None:
    rest, parts = list(words), list[_Component]()
    try:
        if rest.pop(0) != "--kill-wait":
            return None
        kill_wait_s = int(rest.pop(0))
        while rest:
            part = _Component(len(parts), rest.pop(0), int(rest.pop(0)))
            parts.append(part)
            while rest and rest[0].startswith("--"):
                part.take(rest.pop(0), rest)
    except (IndexError, ValueError):
        return None
    return (kill_wait_s, parts) if parts else None


class _Group:
    """The components of one run of the job."""

    def __init__(
        self, parts: Sequence[_Component], env: dict[str, str], wake: int, kill_wait_s: int
    ) -> None:
        self._parts = parts
        self._env = env
        self._wake = wake
        self._kill_wait_s = kill_wait_s
        self._end_s: float | None = None
        self._code = 0
        self._forget()

    def run(self) -> int:
        """Return the code of the first component that failed, once all have ended."""
        while any(part.code is None for part in self._parts):
            if self._end_s is None:
                self._go_on()
            elif time.monotonic() >= self._end_s:
                left = " ".join(part.name for part in self._parts if part.code is None)
                say(
                    f"{left}: still running after {self._kill_wait_s} s; Slurm kills it with the "
                    "job"
                )
                for part in self._parts:
                    if part.code is None:
                        part.code = _KILLED
                        self._keep_end(part)
                break
            for number in self._arrived():
                if number in (signal.SIGUSR1, signal.SIGUSR2):
                    self._send(number)
            self._reap()
        return self._code

    def _forget(self) -> None:
        """Take away how components ended in an earlier start of the job."""
        for part in self._parts:
            folder = component_folder(self._env, part.name)
            try:
                for name in os.listdir(folder):
                    if name.startswith(f"{COMPONENT_END}-"):
                        os.unlink(f"{folder}/{name}")
            except OSError:
                continue

    def _go_on(self) -> None:
        """Start what can be started, and look whether what was started is ready."""
        by_name = {part.name: part for part in self._parts}
        for part in self._parts:
            if part.started_s is None and all(by_name[name].is_ready for name in part.after):
                self._start(part)
            if part.started_s is None or part.is_ready or part.code is not None:
                continue
            # Its runner leaves the file once its server has answered.
            file = own_file(self._env, part.name, SERVE_FILE)
            part.is_ready = part.port is None or os.path.exists(file)

    def _start(self, part: _Component) -> None:
        told = {"HPCKIT_COMPONENT": part.name}
        for one in self._parts:
            name = f"HPCKIT_{one.name.upper()}"
            told[f"{name}_HOSTS"] = ",".join(one.hosts)
            told[f"{name}_HOST"] = one.hosts[0] if one.hosts else ""
            if one.port is not None:
                told[f"{name}_PORT"] = str(one.port)
        path = start_file(self._env, part.name)
        make_folders(os.path.dirname(path))
        write_whole(path, json.dumps(told).encode())
        part.started_s = time.monotonic()

    def _reap(self) -> None:
        for part in self._parts:
            if part.code is not None:
                continue
            try:
                pid, status = os.waitpid(part.pid, os.WNOHANG)
            except ChildProcessError:
                # The shell saw its end, before it became this process.
                say(f"{part.name}: a setup command failed")
                pid, status = part.pid, _FAILED
            if pid:
                part.code = exit_code_of(status)
                self._has_ended(part)
                self._keep_end(part)

    def _has_ended(self, part: _Component) -> None:
        """End the others where a component failed, and the services where nothing else is left."""
        if self._end_s is not None:
            return
        if (
            not part.code
            and not part.is_ready
            and any(part.name in one.after for one in self._parts)
        ):
            say(f"{part.name}: ended before it was ready")
            part.code = 1
        if part.code:
            self._code = part.code
            self._keep_failure(part)
            self._end(f"{part.name} failed with exit code {part.code}")
        elif all(one.code is not None for one in self._parts if not one.is_service):
            self._end("all other components have ended")

    def _end(self, why: str) -> None:
        self._end_s = time.monotonic() + self._kill_wait_s
        left = [part for part in self._parts if part.code is None]
        if not left:
            return
        for part in left:
            part.was_asked = True
        names = ", ".join(part.name for part in left)
        say(f"{why}: stopping {names}")
        ids = {
            self._env.get(f"SLURM_JOB_ID_HET_GROUP_{part.group}", ""): part
            for part in left
            if part.started_s is not None
        }
        asked = end_steps(list(ids), self._env) if ids else set()
        told = {ids[job_id].name for job_id in asked if job_id in ids}
        # The others have no step yet: they wait, or are at a line of their setup.
        for part in left:
            if part.name not in told:
                forward(part.pid, signal.SIGTERM)

    def _keep_end(self, part: _Component) -> None:
        """Say how the component ended: to Slurm all of them end as the script does."""
        words = f"{part.code}{' asked' if part.was_asked else ''}\n"
        self._keep(own_file(self._env, part.name, COMPONENT_END), words)

    def _keep_failure(self, part: _Component) -> None:
        """Leave the whole code: Slurm's accounts take 128 from one above that."""
        self._keep(of_start(self._env, "logs", "failed"), f"{part.code} {part.name}\n")

    def _keep(self, path: str, words: str) -> None:
        try:
            write_whole(path, words.encode())
        except OSError as error:
            say(f"warning: {path}: {reason(error)}")

    def _send(self, number: int) -> None:
        for part in self._parts:
            if part.code is None:
                forward(part.pid, number)

    def _arrived(self) -> bytes:
        ready, _, _ = select.select([self._wake], [], [], _LOOK_S)
        return os.read(self._wake, 512) if ready else b""
