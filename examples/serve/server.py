"""Answers at the port that hpckit chose, and finishes what it has when it is asked to end."""

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Says hello."""

    def do_GET(self) -> None:
        """Answer every path, `/health` too."""
        body = f"hello from {os.uname().nodename}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("", int(os.environ["HPCKIT_SERVE_PORT"])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
print("drained", flush=True)
