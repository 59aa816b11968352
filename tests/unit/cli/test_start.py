"""What a command imports: most of a short command's time goes into imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

NEVER: Final = {"email", "ssl", "http", "asyncio", "importlib.metadata", "submitit", "numpy"}
FOLLOW: Final = {"psutil", "jinja2", "tomllib", "subprocess", "tempfile", "hashlib",
                 "hpckit.script", "hpckit.comm", "hpckit.planner", "hpckit.node"}  # fmt: skip
UNUSED: Final = {
    "--help": {"hpckit.spec", "hpckit.slurm", "msgspec", "json"},
    "jobs": FOLLOW | {"msgspec"},
    "show": FOLLOW | {"msgspec", "hpckit.spec.job"},
    "status": FOLLOW - {"subprocess"} | {"hpckit.spec.job", "hpckit.slurm.text"},
    "tune": {"msgspec", "jinja2", "hashlib", "hpckit.script.admission", "hpckit.jobs.prepare",
             "hpckit.fabric.file", "hpckit.placement", "hpckit.comm.bandwidth"},
    "sites list": FOLLOW - {"tomllib"} | {"sqlite3", "msgspec", "hpckit.spec"},
    "inspect node.json": {"msgspec", "psutil", "jinja2", "tarfile", "hashlib", "hpckit.script",
                          "hpckit.comm", "hpckit.node.capture.hwloc"},
    "render job.toml": {"msgspec", "psutil", "subprocess", "sqlite3", "hpckit.account",
                        "hpckit.node", "hpckit.planner", "hpckit.placement",
                        "hpckit.script.admission", "hpckit.slurm.values",
                        "hpckit.slurm.request", "hpckit.slurm.text"},
    "submit --dry-run job.toml": {"msgspec", "psutil", "sqlite3", "hpckit.account", "hpckit.node",
                                  "hpckit.planner"},
}  # fmt: skip
"""Command → modules that it can do without, besides those that no command needs."""


@pytest.mark.parametrize("command", UNUSED)
def test_a_command_imports_nothing_that_it_does_not_use(command: str, tmp_path: Path) -> None:
    """In a process of its own, with a job that has ended where the command is about jobs."""
    (tmp_path / "job.toml").write_text('schema = "hpckit.job/1"\nname = "x"\ncommand = ["true"]\n')
    node = Path(__file__).parents[3] / "examples" / "dgx-h100.json"
    (tmp_path / "node.json").write_text(node.read_text())
    code = (
        "import sys\n"
        "from hpckit.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()], capture_output=True, text=True,
        cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, timeout=60, check=False,
    )  # fmt: skip
    loaded = set(done.stderr.split("\n")[-2].split())
    assert "hpckit.cli.main" in loaded
    assert loaded & (NEVER | UNUSED[command]) == set()
