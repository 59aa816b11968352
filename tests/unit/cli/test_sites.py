"""`hpckit sites`: which files are found, which wins, what is wrong."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import click
import pytest

from hpckit.cli.main import cli
from hpckit.core.errors import ConfigError
from hpckit.core.files import packaged_data
from tests.fakes.cli_jobs import call, config_home, document, words, write_site

PACKAGED = packaged_data() / "site_configs" / "docker.toml"


def test_sites_shadow_in_the_documented_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--site-dir comes before HPCKIT_PATH, that before ~/.config, and hpckit's own come last."""
    typed = write_site(tmp_path / "typed", "docker", "typed")
    named = write_site(tmp_path / "named" / "site_configs", "docker", "named")
    user = write_site(config_home() / "site_configs", "docker", "user")
    monkeypatch.setenv("HPCKIT_PATH", str(tmp_path / "named"))
    sites = document("sites", "list", "--json", "--site-dir", typed.parent)["sites"]
    docker = next(one for one in sites if one["name"] == "docker")
    assert [docker["path"], *docker["shadowed"]] == list(map(str, (typed, named, user, PACKAGED)))
    assert docker["description"] == "typed"
    text = words(call("sites", "list").stdout)
    assert f"docker named file {named} shadows {user} shadows {PACKAGED}" in text


class _Terminal(io.StringIO):
    """A terminal of COLUMNS columns."""

    def isatty(self) -> bool:
        """Be one."""
        return True


def test_what_a_site_is_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long description is broken at 80 columns behind the site's name, and no word is lost."""
    monkeypatch.setenv("COLUMNS", "80")
    write_site(config_home() / "site_configs", "long", "word " * 30 + "end")
    with contextlib.redirect_stdout(_Terminal()) as terminal:
        cli.main(["sites", "list"], standalone_mode=False)
    lines = [click.unstyle(line) for line in terminal.getvalue().splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith(" long   word"))
    assert lines[at + 1].startswith(" " * 8 + "word")
    assert max(map(len, lines[at : at + 3])) <= 80
    assert words("\n".join(lines)).count("word") == 30


def test_a_wrong_site_file_is_listed_with_its_error() -> None:
    """A site file that is wrong is listed as such beside the others, and cannot be used."""
    write_site(config_home() / "site_configs", "bad", "x").write_text('schema = "hpckit.site/9"\n')
    assert "bad wrong: " in words(call("sites", "list").stdout)
    sites = {one["name"]: one for one in document("sites", "list", "--json")["sites"]}
    assert sites["bad"]["submitter"] is None
    assert "bad.toml" in sites["bad"]["error"]
    assert sites["local"]["error"] is None
    error = call("render", "--site", "bad", "--", "true", refused=True).exception
    assert isinstance(error, ConfigError)


def test_show_prints_the_file_as_it_is() -> None:
    """`sites show` prints the file's own bytes, and where it lies on stderr."""
    result = call("sites", "show", "docker")
    assert result.stdout == PACKAGED.read_text()
    assert str(PACKAGED) in result.stderr


def test_show_gives_values_with_defaults_as_json() -> None:
    """--json gives every value, and the generic site, which has no file, always so."""
    assert document("sites", "show", "local", "--json")["kill_wait_s"] == 10.0
    assert document("sites", "show", "none")["submitter"] == "slurm"


def test_an_unknown_site_is_answered_with_the_nearest() -> None:
    """`sites show` of a misspelled name says which was meant."""
    error = call("sites", "show", "locla", refused=True).exception
    assert isinstance(error, ConfigError)
    assert "did you mean 'local'?" in str(error.hint)
