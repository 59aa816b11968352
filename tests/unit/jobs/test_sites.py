"""Which site file and which template wins, and what a user's own template may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError, RenderError
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import list_sites, load_site, load_templates
from tests.fakes.prepared import prepared

SITE = 'schema = "hpckit.site/1"\nname = "{name}"\ndescription = "{text}"\n'


def resources_with(
    folder: Path, *, sites: dict[str, str] | None = None, templates: dict[str, str] | None = None
) -> FileResources:
    """Hpckit's own files, and before them those of a folder."""
    for kind, texts in (("site_configs", sites or {}), ("templates", templates or {})):
        for name, text in texts.items():
            path = folder / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return FileResources([folder, packaged_data()])


def script(folder: Path, templates: dict[str, str], template: str | None = None) -> str:
    """The script of a small job with these templates of the user's own."""
    resources = resources_with(folder, templates=templates)
    job = prepared(None, command=("true",), resources=resources, template=template)
    return job.script.text


def test_a_site_of_ones_own_wins_and_shadows(tmp_path: Path) -> None:
    """A site file found first is the site, and the packaged one of its name is listed as lost."""
    own = SITE.format(name="docker", text="mine")
    found = list_sites(resources_with(tmp_path, sites={"docker.toml": own}))
    docker = next(one for one in found if one.name == "docker")
    assert docker.path == tmp_path / "site_configs" / "docker.toml"
    assert docker.shadowed == (packaged_data() / "site_configs" / "docker.toml",)
    assert docker.tree is not None
    assert docker.tree["description"] == "mine"


def test_a_wrong_site_file_is_listed_with_its_error(tmp_path: Path) -> None:
    """One wrong file does not hide the other sites; it is listed with what is wrong."""
    sites = {
        "bad.toml": "x = [",
        "called.toml": SITE.format(name="other", text=""),
        "bytes.toml": "",
    }
    resources = resources_with(tmp_path, sites=sites)
    (tmp_path / "site_configs" / "bytes.toml").write_bytes(b"\xff")
    found = {one.name: one for one in list_sites(resources)}
    assert [name for name, one in found.items() if one.tree is None] == ["bad", "bytes", "called"]
    assert "is not valid TOML" in str(found["bad"].error)
    assert "expected 'called'" in str(found["called"].error)
    assert "cannot be read" in str(found["bytes"].error)
    assert found["local"].error is None


def test_an_unknown_site_names_the_nearest() -> None:
    """A misspelled site is answered with the nearest name and all that were found."""
    with pytest.raises(ConfigError, match="no such site: 'dokcer'") as raised:
        load_site(FileResources([packaged_data()]), "dokcer")
    assert raised.value.hint is not None
    assert "did you mean 'docker'? available: alps, aws-p4d, " in raised.value.hint


@pytest.mark.parametrize("name", [None, "none"])
def test_no_site_is_the_generic_one(name: str | None) -> None:
    """Without a site, and by the name `none`, the generic one is meant."""
    assert load_site(FileResources([]), name).name == "none"


def test_a_template_of_ones_own_overrides_one_block(tmp_path: Path) -> None:
    """A new template that extends hpckit's changes its block alone, and the script says whose."""
    text = '{% extends "base.sbatch.j2" %}{% block array %}\necho mine\n{% endblock %}\n'
    plain = script(tmp_path / "none", {})
    own = script(tmp_path, {"mine.sbatch.j2": text}, "mine.sbatch.j2")
    added = [line for line in own.splitlines() if line not in plain.splitlines()]
    assert "echo mine" in added
    assert any("custom template (not hpckit's): sha256 " in line for line in added)
    assert set(plain.splitlines()) - set(own.splitlines()) == {
        line for line in plain.splitlines() if "template base" in line or "# reproduce" in line
    }


def test_a_block_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """`sampler` was one of earlier scripts, and would have no effect."""
    text = '{% extends "base.sbatch.j2" %}{% block sampler %}\necho mine\n{% endblock %}\n'
    with pytest.raises(RenderError, match="sampler"):
        script(tmp_path, {"mine.sbatch.j2": text}, "mine.sbatch.j2")


def test_a_template_may_shadow_and_extend_hpckits_own(tmp_path: Path) -> None:
    """A `base.sbatch.j2` of the user's own extends `hpckit/base.sbatch.j2`, the packaged one."""
    text = '{% extends "hpckit/base.sbatch.j2" %}\n{% block rendezvous %}\necho s\n{% endblock %}\n'
    own = script(tmp_path, {"base.sbatch.j2": text})
    assert "\necho s\n" in own
    assert "custom template (not hpckit's)" in own


def test_an_unused_template_of_ones_own_changes_nothing(tmp_path: Path) -> None:
    """A template that the script does not use leaves no trace in it, and has no digest."""
    assert script(tmp_path, {"other.j2": "{% broken"}) == script(tmp_path / "none", {})
    templates = load_templates(FileResources([tmp_path, packaged_data()]))
    assert set(templates.own) == {"other.j2"}
    assert templates.own_digest(["base.sbatch.j2"]) is None
    assert templates.own_digest(["base.sbatch.j2", "other.j2"]) is not None


def test_the_digest_follows_the_text_of_ones_own_templates(tmp_path: Path) -> None:
    """Another text of an included template gives another digest in the script."""

    def digest_line(text: str) -> str:
        base = '{% extends "hpckit/base.sbatch.j2" %}{% block rendezvous %}{% include "x.j2" %}'
        own = script(tmp_path, {"base.sbatch.j2": f"{base}{{% endblock %}}", "x.j2": text})
        return next(line for line in own.splitlines() if "not hpckit's)" in line)

    assert digest_line("true\n") != digest_line("false\n")
