"""From a job file and options to a script, with sites and templates as files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError, RenderError
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import list_sites, load_site
from hpckit.spec.files import OriginKind
from tests.fakes.prepared import RESOURCES, prepared

BASE = 'name = "x"\ncommand = ["x"]\n'


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with site files and templates of one's own."""
    for name in ("site_configs", "templates"):
        (tmp_path / name).mkdir()
    return tmp_path


def resources(folder: Path) -> FileResources:
    """One's own files before hpckit's."""
    return FileResources([folder, packaged_data()])


def test_every_value_knows_its_origin() -> None:
    """The effective job names what gave each value: an option, the file, the site, hpckit."""
    job = prepared(BASE + "resources.nodes = 2", options={"slurm.qos": "high"})
    found = {one.key: (one.value, one.origin, one.detail) for one in job.effective.origins}
    assert found["slurm.qos"] == ('"high"', OriginKind.COMMAND_LINE, "--set slurm.qos")
    assert found["resources.nodes"] == ("2", OriginKind.JOB, "job.toml")
    assert found["slurm.partition"] == ('"main"', OriginKind.SITE, "site docker")
    assert found["resources.ntasks_per_node"] == ("1", OriginKind.DEFAULT, "hpckit")
    assert found["launch.kind"] == ('"plain"', OriginKind.DEFAULT, "hpckit")
    assert "resources.mem" not in found
    assert "environment.modules" not in found
    assert "schema" not in found


def test_an_empty_list_that_was_said_is_shown() -> None:
    """A list that somebody emptied is a value with an origin."""
    job = prepared(BASE + "environment.modules = []")
    assert "environment.modules" in {one.key for one in job.effective.origins}


def test_the_digest_is_the_same_for_the_same_job() -> None:
    """A value said is the same job as a value by default."""
    said = prepared(BASE + "resources.nodes = 1\nlaunch.kind = 'plain'")
    assert said.effective.digest == prepared(BASE).effective.digest
    assert said.effective.digest != prepared(BASE, site="local").effective.digest
    assert said.effective.digest[:12] in said.script.text


def test_a_command_without_a_file() -> None:
    """A command alone is a job named after it."""
    job = prepared(command=("python", "train.py", "--x"))
    assert job.effective.spec.name == "train"
    assert job.effective.spec.command == ("python", "train.py", "--x")
    assert "hpckit render --site docker -- python train.py --x\n" in job.script.text


def test_a_command_over_a_file() -> None:
    """A command after -- stands over the file's, whose name stays."""
    job = prepared(BASE, command=("y",))
    assert (job.effective.spec.name, job.effective.spec.command) == ("x", ("y",))


@pytest.mark.parametrize("where", ["file", "command line"])
def test_torchrun_in_front_says_the_launch(where: str) -> None:
    """A command that begins with torchrun is a torchrun launch, wherever it was said."""
    command = ["torchrun", "--max-restarts", "1", "train.py"]
    if where == "file":
        job = prepared(f'name = "x"\ncommand = {command!r}')
    else:
        job = prepared(BASE, command=tuple(command))
    spec = job.effective.spec
    assert (spec.launch.kind, spec.command) == ("torchrun", ("python3", "train.py"))
    assert spec.launch.torchrun_args == ("--max-restarts=1",)
    origin = {one.key: one.detail for one in job.effective.origins}
    assert origin["launch.kind"] == "torchrun in command"


def test_a_launch_that_was_said_stays() -> None:
    """Where the launch was said, a command is taken as it stands."""
    for program in ("torchrun", "/opt/bin/torchrun"):
        text = f'name = "x"\ncommand = ["{program}", "--standalone", "x.py"]\nlaunch.kind = "plain"'
        assert prepared(text).effective.spec.command == (program, "--standalone", "x.py")


@pytest.mark.parametrize("command", ['"x"', "[1]", "3"])
def test_a_command_of_another_type(command: str) -> None:
    """A command that is no list of texts is refused with its key."""
    with pytest.raises(ConfigError) as caught:
        prepared(f'name = "x"\ncommand = {command}')
    assert str(caught.value.key).startswith("command")


def test_the_wrong_table_is_refused_not_read() -> None:
    """A launch that is no table is refused with its key."""
    with pytest.raises(ConfigError) as caught:
        prepared(BASE + "launch = 3")
    assert caught.value.key == "launch"


@pytest.mark.parametrize("site", [None, "none"])
def test_no_site(site: str | None) -> None:
    """Without a site there is Slurm as its manual describes it."""
    job = prepared(BASE, site=site)
    assert job.site.name == "none"
    assert "--partition" not in job.script.text


def test_a_site_that_is_not_there() -> None:
    """An unknown site is refused with the nearest name and all that there are."""
    with pytest.raises(ConfigError) as caught:
        prepared(BASE, site="dokcer")
    assert "did you mean 'docker'?" in str(caught.value)
    assert re.search(r"sites found: .*\bdocker, .*\blocal, ", str(caught.value))
    with pytest.raises(ConfigError) as caught:
        prepared(BASE, site="zzz")
    assert "did you mean" not in str(caught.value)


def test_ones_own_site_wins(own: Path) -> None:
    """The first file of a name wins, and the shadowed ones are known."""
    text = 'schema = "hpckit.site/1"\nname = "docker"\ndescription = "mine"\n'
    (own / "site_configs" / "docker.toml").write_text(text)
    (own / "site_configs" / "bad.toml").write_text("x = 1")
    assert load_site(resources(own), "docker").description == "mine"
    found = {site.name: site for site in list_sites(resources(own))}
    assert {"bad", "docker", "local"} < set(found)
    assert len(found["docker"].shadowed) == 1
    assert found["bad"].site is None
    assert "unknown key" in str(found["bad"].error)
    assert found["local"].shadowed == ()


def test_a_template_that_shadows_hpckits(own: Path) -> None:
    """A file of hpckit's own name can extend hpckit's; the script says so."""
    text = '{% extends "hpckit/base.sbatch.j2" %}{% block rendezvous %}\necho mine\n{% endblock %}'
    (own / "templates" / "base.sbatch.j2").write_text(text)
    script = prepared(BASE, resources=resources(own)).script.text
    assert "\necho mine\n" in script
    assert "# this template is not hpckit's own: sha256 " in script


def test_an_unused_template_changes_nothing(own: Path) -> None:
    """Templates that a script does not use leave its bytes alone."""
    (own / "templates" / "other.j2").write_text("x")
    assert prepared(BASE, resources=resources(own)).script == prepared(BASE).script


def test_a_template_by_name(own: Path) -> None:
    """A template named by option is used, and named in the script."""
    (own / "templates" / "a.j2").write_text('{% extends "base.sbatch.j2" %}')
    script = prepared(BASE, resources=resources(own), template="a.j2").script.text
    assert "template a.j2\n" in script
    assert "--template a.j2\n" in script
    with pytest.raises(RenderError, match="there is no such template"):
        prepared(BASE, template="a.j2")


def test_the_packaged_sites_are_valid() -> None:
    """Every site file of hpckit is valid, and says what it is."""
    found = list_sites(RESOURCES)
    assert [site.name for site in found if site.error] == []
    assert all(site.site is not None and site.site.description for site in found)
