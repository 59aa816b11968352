"""Keeps what the rollouts bring, and gives it to the trainers; says how much when it is ended."""

import json
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

samples: list[int] = []


class Handler(BaseHTTPRequestHandler):
    """`POST /samples` brings one, `GET /samples` gives all, `GET /health` says that it is there."""

    def do_POST(self) -> None:
        """Keep a sample."""
        samples.append(int(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(b"")

    def do_GET(self) -> None:
        """Give all of them, or a sign of life."""
        self._answer(json.dumps(samples).encode() if self.path == "/samples" else b"well")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


server = ThreadingHTTPServer(("", int(sys.argv[1])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
print(f"drained after {len(samples)} samples", flush=True)
