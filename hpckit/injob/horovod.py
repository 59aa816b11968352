"""Horovod's ranks find each other by Gloo: their numbers, and the store that rank 0 keeps.

Source: Horovod 0.28.1, horovod/common/gloo (gloo_context.h, http_store.cc) and
horovod/runner/http/http_server.py, whose server `horovodrun` starts before it logs in everywhere.
"""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hpckit.core.talk import reason, say

TYPE_CHECKING = False

if TYPE_CHECKING:
    from hpckit.core.identity import Identity


_MOST_BYTES = 1 << 20
"""More than an address of a rank takes."""
_OK, _NOT_FOUND, _TOO_LARGE = 200, 404, 413


class Meeting:
    """What one rank is told; with rank 0 goes the store, a process that ends with its command."""

    def __init__(self, env: dict[str, str], identity: Identity, log: int | None) -> None:
        """Start the store. Raises SystemExit where ranks could not find each other."""
        numbers = (identity.rank, identity.world_size, identity.local_rank,
                   identity.local_world_size, identity.node_rank)  # fmt: skip
        port = env.get("MASTER_PORT", "")
        if None in numbers or not port.isdigit():
            say("Horovod cannot start: this rank has no rank number or no MASTER_PORT", log)
            raise SystemExit(1)
        self._env, self._identity = env, identity
        self.held: int | None = None
        if identity.rank == 0:
            try:
                self.held = _keep_store(int(port), through_exec=log is None)
            except OSError as error:
                say(f"Horovod cannot start: port {port} on this node: {reason(error)}", log)
                raise SystemExit(1) from None

    def exports(self) -> dict[str, str]:
        """Return the variables that Horovod reads; those that the job sets itself stay."""
        one = self._identity
        local_size = one.local_world_size or 1
        given = {
            "HOROVOD_RANK": one.rank,
            "HOROVOD_SIZE": one.world_size,
            "HOROVOD_LOCAL_RANK": one.local_rank,
            "HOROVOD_LOCAL_SIZE": local_size,
            "HOROVOD_CROSS_RANK": one.node_rank,
            "HOROVOD_CROSS_SIZE": (one.world_size or 1) // local_size,
            "HOROVOD_HOSTNAME": self._env.get("SLURMD_NODENAME") or os.uname().nodename,
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": self._env.get("MASTER_ADDR", ""),
            "HOROVOD_GLOO_RENDEZVOUS_PORT": self._env["MASTER_PORT"],
        }
        usual = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}
        usual = {name: value for name, value in usual.items() if name not in self._env}
        return {**{name: str(value) for name, value in given.items()}, **usual}


def _keep_store(port: int, *, through_exec: bool) -> int:
    """Serve from a process of its own until this one ends; return what has to stay open for that.

    `through_exec`: this process is about to become the rank's command.
    """
    server = ThreadingHTTPServer(("", port), _Store)
    server.daemon_threads = True
    ended, held = os.pipe()
    if os.fork() == 0:
        import threading

        os.close(held)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.read(ended, 1)
        os._exit(0)
    os.close(ended)
    server.socket.close()
    os.set_inheritable(held, through_exec)
    return held


class _Store(BaseHTTPRequestHandler):
    """`PUT`, `GET` and `DELETE` of `/scope/key`, as HTTPStore asks."""

    kept: dict[str, bytes] = {}  # noqa: RUF012  of the one store of this process

    def do_GET(self) -> None:
        """Give what was put there, 404 before."""
        value = self.kept.get(self.path)
        self._answer(_NOT_FOUND if value is None else _OK, value or b"")

    def do_PUT(self) -> None:
        """Keep it."""
        count = int(self.headers.get("Content-Length") or 0)
        if not 0 <= count <= _MOST_BYTES:
            self._answer(_TOO_LARGE)
            return
        self.kept[self.path] = self.rfile.read(count)
        self._answer(_OK)

    def do_DELETE(self) -> None:
        """A rank has all that it needs; others may not, so nothing is forgotten."""
        self._answer(_OK)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the rank's words are its own."""

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
