"""A headless Chromium, driven over its own pipe: the DevTools protocol, zero-terminated JSON.

Source: `--remote-debugging-pipe` reads commands from file descriptor 3 and writes to 4; the
protocol is https://chromedevtools.github.io/devtools-protocol/.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE_S: Final = 60.0
_FLAGS: Final = (
    "--headless=new", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
    "--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--disable-features=Translate,MediaRouter,OptimizationHints", "--mute-audio",
)  # fmt: skip


def find_chromium() -> str | None:
    """Where a Chromium is; HPCKIT_CHROMIUM names one."""
    named = os.environ.get("HPCKIT_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserFailed(Exception):
    """The browser refused a command, or did not answer in time."""


@dataclass(slots=True)
class Heard:
    """What a page did that a page should not: each a sentence."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class Chromium:
    """A browser with one page; as a context it ends with it."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="hpckit-chromium-", ignore_cleanup_errors=True
        )
        self._process, self._to, self._from = _started(program, self._folder.name)
        self._rest = b""
        self._last_id = 0
        self._session: str | None = None
        self._waiting: dict[str, bool] = {}
        self.heard = Heard()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        answer = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._to)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command. Raises BrowserFailed, also for one that was sent before it."""
        self._send(method, parameters)
        until = time.monotonic() + _PATIENCE_S
        while True:
            found = self._next(until)
            if "error" in found:
                raise BrowserFailed(f"{method}: {found['error']}")
            if found.get("id") == self._last_id:
                result: dict[str, Any] = found["result"]
                return result

    def _send(self, method: str, parameters: Mapping[str, Any]) -> None:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._from, 1 << 20) if ready else b""
            if not piece:
                raise BrowserFailed("Chromium did not answer in time, or ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._listen(message.get("method", ""), message.get("params", {}))
        return message

    def _listen(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith("data:"):  # what is in the page itself is no request
                self.heard.requests.append(url)
        elif method == "Runtime.consoleAPICalled" and params["type"] in {
            "error",
            "warning",
            "assert",
        }:
            words = [str(one.get("value", one.get("description"))) for one in params["args"]]
            self.heard.complaints.append(f"{params['type']}: {' '.join(words)}")
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            words = details.get("exception", {}).get("description", details["text"])
            self.heard.complaints.append(f"exception: {words}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.heard.complaints.append(f"log: {params['entry']['text']}")
        elif method == "Page.loadEventFired":
            self._waiting["load"] = True

    def open(self, path: Path) -> None:
        """Open a file and wait for it to be loaded; forgets what was heard before."""
        self.heard = Heard()
        self._waiting["load"] = False
        self.call("Page.navigate", url=path.as_uri())
        until = time.monotonic() + _PATIENCE_S
        while not self._waiting["load"]:
            self._next(until)

    def screen(self, width: int, height: int, *, dark: bool = False, touch: bool = False) -> None:
        """The size of the window in CSS pixels, and which colours and pointer the reader has."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=touch,
        )  # fmt: skip
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is, a promise's value once it has one."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserFailed(json.dumps(answer["exceptionDetails"])[:1000])
        return answer["result"].get("value")

    def wait_for(self, expression: str, patience_s: float = _PATIENCE_S) -> Any:
        """The first value of an expression that is true. Raises BrowserFailed after the time."""
        until = time.monotonic() + patience_s
        while not (found := self.value(expression)):
            if time.monotonic() > until:
                raise BrowserFailed(f"still {found!r} after {patience_s:.0f} s: {expression}")
            time.sleep(0.05)
        return found

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """One event of the mouse: mousePressed, mouseMoved, mouseReleased, mouseWheel."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button in one place."""
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", buttons=0, clickCount=1)

    def shot(self, *, whole: bool = False) -> bytes:
        """The window as PNG, or the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])


def _started(program: str, folder: str) -> tuple[subprocess.Popen[bytes], int, int]:
    read_commands, to = os.pipe()
    from_, write_answers = os.pipe()
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    argv = [program, *_FLAGS, *root, f"--user-data-dir={folder}"]
    # The shell moves the pipes to where Chromium wants them.
    moved = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
    process = subprocess.Popen(
        ["bash", "-c", moved, "bash", *argv],
        pass_fds=(read_commands, write_answers),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(read_commands)
    os.close(write_answers)
    return process, to, from_
