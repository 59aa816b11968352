"""A user's own defaults, `~/.config/hpckit/config.toml`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from hpckit import api
from hpckit.core.errors import ConfigError
from tests.fakes.cli_jobs import call, config_home, document, ended_job

DEFAULTS = """\
site = "docker"

[slurm]
account = "proj1"
partition = "debug"
mail_type = ["END"]
"""
JOB = """\
schema = "hpckit.job/1"
name = "n"
command = ["true"]
slurm.account = "proj2"
"""


@pytest.fixture(autouse=True)
def defaults() -> Path:
    """The user's file."""
    config_home().mkdir(parents=True)
    file = config_home() / "config.toml"
    file.write_text(DEFAULTS)
    return file


def rendered(*args: str | Path) -> dict[str, Any]:
    """What `render --json` prints; `origins` as key → (value, where it is from)."""
    shown = document("render", "--json", *args)
    origins = {one["key"]: (one["value"], one["detail"]) for one in shown["effective"]["origins"]}
    return {**shown, "origins": origins}


def test_defaults_stand_between_the_job_file_and_the_site(tmp_path: Path) -> None:
    """They override the site, options and the job file override them, and all say where from."""
    (tmp_path / "job.toml").write_text(JOB)
    shown = rendered(tmp_path / "job.toml", "--mail-type", "FAIL")
    assert shown["site"] == "docker"
    assert shown["origins"]["slurm.account"] == ('"proj2"', "job.toml")
    assert shown["origins"]["slurm.partition"] == ('"debug"', "config.toml")
    assert shown["origins"]["slurm.mail_type"] == ('["FAIL"]', "--mail-type")
    table = call("render", "--explain", "--", "true").stdout.splitlines()
    assert next(line.split()[-1] for line in table if "slurm.account" in line) == "config.toml"


def test_a_byte_order_mark_of_an_editor_says_nothing(defaults: Path) -> None:
    """Windows' editors begin a file with it."""
    defaults.write_text("\ufeff" + DEFAULTS)
    assert rendered("--", "true")["site"] == "docker"


def test_variables_of_the_shell_override_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """HPCKIT_SITE and SBATCH_ACCOUNT say more of this shell than the file does."""
    monkeypatch.setenv("HPCKIT_SITE", "local")
    monkeypatch.setenv("SBATCH_ACCOUNT", "proj3")
    shown = rendered("--", "true")
    assert shown["site"] == "local"
    assert "slurm.account" not in shown["origins"]


def test_a_job_submitted_again_stays_at_its_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the file nor HPCKIT_SITE moves it to another cluster, a typed --site does."""
    again = ("submit", "--dry-run", "--json", "--again", ended_job("true").job_id)
    assert document(*again)["site"] == "local"
    monkeypatch.setenv("HPCKIT_SITE", "alps")
    assert document(*again)["site"] == "local"
    assert document(*again, "--site", "docker")["site"] == "docker"


def test_a_program_gets_what_the_command_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Site and defaults are chosen by one rule."""
    assert api.job(["true"]).script == call("render", "--", "true").stdout
    monkeypatch.setenv("HPCKIT_SITE", "local")
    assert api.job(["true"]).script == call("render", "--", "true").stdout


@pytest.mark.parametrize(
    ("here", "there"), [(DEFAULTS, ""), ("", 'site = "docker"\n')], ids=["defaults", "no site"]
)
def test_the_line_reproduce_needs_no_defaults(defaults: Path, here: str, there: str) -> None:
    """The command in the script's head renders the same bytes for somebody with another file."""
    defaults.write_text(here)
    script = call("render", "--", "true").stdout
    line = next(line for line in script.splitlines() if line.startswith("# reproduce"))
    defaults.write_text(there)
    _, *words = shlex.split(line.partition(": ")[2])
    assert call(*words).stdout == script


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('account = "a"\n', "account", "did you mean `slurm.account`?"),
        ("[resources]\nnodes = 2\n", "resources", "valid keys here: site, slurm"),
        ("[slurm]\naccount = 1\n", "slurm.account", None),
    ],
)
def test_a_wrong_key_or_value_is_an_error(
    defaults: Path, text: str, key: str, hint: str | None
) -> None:
    """The error names the file and the key, and where it can, the right one."""
    defaults.write_text(text)
    error = call("render", "--", "true", refused=True).exception
    assert isinstance(error, ConfigError)
    assert (error.source, error.key) == (str(defaults), key)
    assert hint is None or hint in str(error.hint)


def test_doctor_names_the_file(defaults: Path) -> None:
    """`doctor` says that there are defaults, and of what."""
    found = {
        one["subject"]: one["text"]
        for one in document("doctor", "--site", "local", "--json")["findings"]
    }
    expected = f"{defaults}: site docker, slurm.account, slurm.partition, slurm.mail_type"
    assert found["defaults"] == expected
