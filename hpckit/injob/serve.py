"""A server that a job runs: where it is, when it is ready, and whether anybody uses it."""

from __future__ import annotations

import json
import os
import socket
import time

from hpckit.core.files_in_job import make_folders, write_whole
from hpckit.core.talk import reason, say
from hpckit.spec.folder_in_job import SERVE_FILE, of_start

_ANSWER_S = 2.0
_LEAST_STATUS, _ERROR_STATUS = 200, 400
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
"""Source: Documentation/networking/proc_net_tcp.rst, include/net/tcp_states.h."""
_SAY_EACH_S = 60.0


def answers(host: str, port: int, path: str, own: set[int] | None = None) -> bool:
    """Return whether a server answers, by HTTP with a status below 400 where there is a path.

    The port from which it is asked is added to `own`.
    """
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_S) as connection:
            if own is not None:
                own.add(connection.getsockname()[1])
            if not path:
                return True
            question = f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n"
            connection.sendall(question.encode())
            status = int(connection.makefile("rb").readline(512).split()[1])
    except (OSError, ValueError, IndexError):
        return False
    return _LEAST_STATUS <= status < _ERROR_STATUS


def is_used(port: int, own: set[int]) -> bool:
    """Return whether a connection to a port of this host is there, or was a minute ago.

    One that the server closed stays for a minute (TIME_WAIT). Those from the ports `own` are not
    counted.
    """
    ending, ours = f":{port:04X}", tuple(f":{one:04X}" for one in own)
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as lines:
                next(lines)
                for line in lines:
                    _, local, remote, state, *_ = line.split()
                    is_ours = bool(ours) and remote.endswith(ours)
                    if local.endswith(ending) and state != _LISTENS and not is_ours:
                        return True
        except (OSError, StopIteration, ValueError):
            continue
    return False


class Server:
    """The server of a job, or of a component of one.

    `said` is `PORT[/PATH]`, of which the port may be 0: then it is a free one of this host.
    `idle_s` is how long nobody need use it, None for ever.
    """

    def __init__(self, said: str, idle_s: float | None, host: str, env: dict[str, str]) -> None:
        port, slash, path = said.partition("/")
        self.host, self.port, self.path = host, int(port), slash + path
        self._idle_s = idle_s
        self._env = env
        self._begun_s = self._said_s = time.monotonic()
        self._used_s: float | None = None
        self._own = set[int]()
        self.claim: socket.socket | None = None
        """What keeps a port that was chosen here from other jobs, until it is closed."""
        self._file = of_start(env, "", SERVE_FILE)
        self._forget()
        if not self.port:
            self._choose()
        elif answers(host, self.port, ""):
            say(f"the server was not started: port {self.port} on {host} is in use")
            raise SystemExit(1)

    def _choose(self) -> None:
        from hpckit.injob.port import claim_port

        after = self._env.get("MASTER_PORT", "")
        found = claim_port(int(after) if after.isdigit() else 0, 0, 1)
        if found is None:
            say("the server was not started: no free port on this host")
            raise SystemExit(1)
        self.port, self.claim = found

    @property
    def is_ready(self) -> bool:
        """Whether it has answered."""
        return self._used_s is not None

    def look(self) -> bool:
        """Look whether it answers, then whether it is used; true once it has been idle too long."""
        now_s = time.monotonic()
        if self._used_s is None:
            if answers(self.host, self.port, self.path, self._own):
                self._used_s = now_s
                say(f"{self.url} is ready after {now_s - self._begun_s:.1f} s")
                self._keep()
            elif now_s - self._said_s >= _SAY_EACH_S:
                self._said_s = now_s
                say(f"{self.url} does not answer yet")
            return False
        if self._idle_s is None:
            return False
        if is_used(self.port, self._own):
            self._used_s = now_s
        return now_s - self._used_s >= self._idle_s

    @property
    def url(self) -> str:
        """Its address; without HTTP the host and the port."""
        return f"http://{self.host}:{self.port}" if self.path else f"{self.host}:{self.port}"

    def _keep(self) -> None:
        """Leave for `hpckit status` where it is, and since when it answers."""
        document = {"schema": "hpckit.serve/1", "url": self.url, "host": self.host,
                    "port": self.port, "ready_s": time.time()}  # fmt: skip
        try:
            make_folders(os.path.dirname(self._file))
            write_whole(self._file, json.dumps(document).encode())
        except OSError as error:
            say(f"warning: {os.path.basename(self._file)}: {reason(error)}")

    def _forget(self) -> None:
        """Take away what an earlier start of the job has left: nothing answers there."""
        folder = os.path.dirname(self._file)
        try:
            for name in os.listdir(folder):
                if name.startswith(f"{SERVE_FILE}-"):
                    os.unlink(f"{folder}/{name}")
        except OSError:
            return
