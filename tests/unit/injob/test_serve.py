"""A server that a job runs, watched from beside it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hpckit.injob.serve import Server, answers, is_used


class Handler(BaseHTTPRequestHandler):
    """Well at /health alone."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_it_answers(port: int) -> None:
    """By HTTP with a good status where a path is said, else by taking the connection."""
    assert answers("127.0.0.1", port, "/health")
    assert answers("127.0.0.1", port, "")
    assert not answers("127.0.0.1", port, "/")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    assert not answers("127.0.0.1", free, "")


def test_a_connection_is_seen(port: int) -> None:
    """While it is there, and not before."""
    assert not is_used(port, set())
    with socket.create_connection(("127.0.0.1", port)):
        assert is_used(port, set())


def test_a_port_in_use_is_not_the_jobs(port: int, tmp_path: Path) -> None:
    """What answers there before the job's own server is somebody else's."""
    with pytest.raises(SystemExit):
        Server(f"{port}/health", None, "127.0.0.1", {"HPCKIT_JOB_FOLDER": str(tmp_path)})


def test_it_is_ready_then_idle(port: int, tmp_path: Path) -> None:
    """Its address is left for the status, what an earlier start left is gone."""
    (tmp_path / "serve-0").write_text("{}")
    env = {"HPCKIT_JOB_FOLDER": str(tmp_path), "SLURM_RESTART_COUNT": "1"}
    server = Server("0/health", 0.3, "127.0.0.1", env)
    assert list(tmp_path.iterdir()) == []
    assert server.claim is not None
    server.claim.close()
    server.port = port
    assert not server.look()
    told = json.loads((tmp_path / "serve-1").read_text())
    assert (told["url"], told["port"]) == (f"http://127.0.0.1:{port}", port)
    with socket.create_connection(("127.0.0.1", port)):
        time.sleep(0.4)
        assert not server.look()


def test_nobody_used_it(tmp_path: Path) -> None:
    """A server without a limit is never idle, one with a limit once that has passed."""
    env = {"HPCKIT_JOB_FOLDER": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        limited = Server("1", 0.2, "127.0.0.1", env)
        for_ever = Server("1", None, "127.0.0.1", env)
        limited.port = for_ever.port = port
        assert not limited.look()
        assert not for_ever.look()
        listening.accept()[0].close()
        listening.accept()[0].close()
    # What the server closed stays in the kernel's tables for a minute: another port is quiet.
    limited.port = 1
    time.sleep(0.3)
    assert limited.look()
    assert not for_ever.look()


def test_a_free_port_is_chosen(tmp_path: Path) -> None:
    """Another one for each server of this host."""
    env = {"HPCKIT_JOB_FOLDER": str(tmp_path), "MASTER_PORT": "61234"}
    servers = [Server("0/health", None, "127.0.0.1", env) for _ in range(3)]
    assert len({server.port for server in servers}) == 3
    assert 0 not in {server.port for server in servers}
    for server in servers:
        assert server.claim is not None
        server.claim.close()
