"""The Python API: the same refusals and the same bytes as the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hpckit import api
from hpckit.core.errors import ConfigError
from tests.conftest import RunHpckit

JOB = 'schema = "hpckit.job/1"\nname = "x"\ncommand = ["python3", "train.py"]\n'


def test_the_script_is_that_of_render(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """Of a file with a setting over it, and of a command alone."""
    file = tmp_path / "job.toml"
    file.write_text(JOB)
    rendered = run_hpckit("render", "job.toml", "--site", "docker", "--set", "resources.nodes=2")
    loaded = api.load(file, site="docker", resources={"nodes": 2})
    assert loaded.script == rendered.stdout
    assert loaded.spec.resources.nodes == 2
    alone = api.job(["python3", Path("train.py")], site="docker", resources={"nodes": 2})
    assert "--nodes=2" in alone.script


def test_a_token_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    """A comment of a job file too: the file is kept as it is."""
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"
    file = tmp_path / "job.toml"
    file.write_text(f"{JOB}# {token}\n")
    with pytest.raises(ConfigError):
        api.load(file, site="local")
    with pytest.raises(ConfigError):
        api.job(["train", f"--token={token}"], site="local")
    with pytest.raises(ConfigError):
        api.job(["train"], site="local", environment={"set": {"TOKEN": token}})


def test_what_is_no_command_is_said() -> None:
    """A text is no list of words; a folder that is not there is no job file."""
    with pytest.raises(ConfigError, match="expected a list of words"):
        api.job("python3 train.py", site="local")
    with pytest.raises(ConfigError, match="cannot be read"):
        api.load("no/such/job.toml")


def test_threads_may_make_the_first_call_together() -> None:
    """In a process of its own: two first conversions at once would end it by SIGSEGV."""
    code = (
        "import sys\n"
        "from hpckit import api\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    list(pool.map(api.inspect, [sys.argv[1]] * 8))\n"
    )
    node = Path(__file__).parents[2] / "examples" / "dgx-h100.json"
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code, node], check=False, timeout=60)
        assert done.returncode == 0
