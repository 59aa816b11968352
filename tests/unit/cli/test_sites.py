"""`hpckit sites`: which files are found, which wins, what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert f"docker {named}" in words(call("sites", "list").stdout)


def test_a_site_of_ones_own_needs_its_name_alone(tmp_path: Path) -> None:
    """What the file leaves out is its default, as in hpckit's own."""
    (tmp_path / "bare.toml").write_text('schema = "hpckit.site/1"\nname = "bare"\n')
    sites = document("sites", "list", "--json", "--site-dir", tmp_path)["sites"]
    bare = next(one for one in sites if one["name"] == "bare")
    assert (bare["description"], bare["submitter"], bare["error"]) == ("", "slurm", None)
    assert f"bare {tmp_path}" in words(call("sites", "list", "--site-dir", tmp_path).stdout)


def test_a_site_is_one_line() -> None:
    """Its GPUs, network and nodes; of a file that is not hpckit's own where it is."""
    text = call("sites", "list").stdout
    (line,) = (line for line in text.splitlines() if line.startswith(" dgx-h100 "))
    assert line.split() == [
        "dgx-h100",
        "8",
        "×",
        "h100",
        "8",
        "×",
        "400",
        "Gb/s",
        "infiniband",
        "127",
    ]


def test_a_wrong_site_file_is_listed_with_its_error() -> None:
    """A site file that is wrong is listed as such beside the others, and cannot be used."""
    write_site(config_home() / "site_configs", "bad", "x").write_text('schema = "hpckit.site/9"\n')
    assert "bad invalid: " in words(call("sites", "list").stdout)
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


def test_the_site_that_names_this_cluster_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --site on its login node, and that is said; one's own before hpckit's of the same.

    Another cluster's file is not taken, nor one of two that name it.
    """
    conf = tmp_path / "slurm.conf"
    monkeypatch.setenv("SLURM_CONF", str(conf))
    conf.write_text("# a comment\nClusterName=HPCkit\n")
    rendered = call("render", "--", "true")
    assert "site docker: its file names this cluster (hpckit)" in rendered.stderr
    assert "reproduce: hpckit render --site docker -- true" in words(rendered.stdout)
    assert "site docker" in call("doctor").stdout
    assert "site none" in call("render", "--site", "none", "--", "true").stdout
    for name in ("ours", "theirs"):
        path = write_site(config_home() / "site_configs", name, "hpckit")
        path.write_text(path.read_text() + '[slurm]\ncluster = "hpckit"\n')
        expected = "ours" if name == "ours" else "none"
        assert f"site {expected}" in call("render", "--", "true").stdout
