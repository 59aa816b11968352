"""The published JSON Schemas and generated pages say what the parsers and the code say."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hpckit.core.document import convert
from hpckit.core.errors import ConfigError
from hpckit.script.launchers.registry import refuse_launch
from hpckit.spec.components import component_layers, component_requests
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import effective_job, parse_site_file
from tests.fakes.layers import job_layer

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs" / "reference"
JOB_FILES = sorted((ROOT / "examples").rglob("*.toml"))
SITE_FILES = sorted((ROOT / "site_configs").rglob("*.toml"))
FULL_JOB = """\
schema = "hpckit.job/1"
name = "full"
command = ["python3", "train.py"]
[resources]
nodes = 2
gpus_per_node = 4
[launch]
kind = "torchrun"
args = ["--max-restarts=1"]
[environment]
inherit = "none"
pass = ["NCCL_*"]
set = { A = "1" }
[slurm]
mail_type = ["END"]
extra = { "gpu-freq" = "low", contiguous = true, nice = 10 }
[tune]
env = { NCCL_DEBUG = "WARN" }
[parallel]
tensor = 4
data = 2
"""
CLOSED_TABLES = ("", "resources", "launch", "environment", "slurm", "tune", "parallel")
WRONG_VALUES = (
    ("resources", "nodes", 0),
    ("resources", "nodes", "2"),
    ("resources", "time_limit", 30),
    ("launch", "kind", "torch"),
    ("launch", "kill_on_bad_exit", "yes"),
    ("environment", "pass", "NCCL_*"),
    ("tune", "env", {"NCCL_DEBUG": 1}),
    ("slurm", "extra", {"nice": 1.5}),
)


def generator() -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published(name: str) -> Draft202012Validator:
    """A published schema, itself a valid one."""
    schema = json.loads((REFERENCE / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def job_validator() -> Draft202012Validator:
    """The schema of job files."""
    return published("hpckit.job-1.schema.json")


def site_validator() -> Draft202012Validator:
    """The schema of site files."""
    return published("hpckit.site-1.schema.json")


def read(path: Path) -> dict[str, Any]:
    """A TOML file as a tree."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def with_unknown_keys(tree: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tree once for each closed table, with one unknown key in it."""
    for table in CLOSED_TABLES:
        changed = copy.deepcopy(tree)
        (changed.setdefault(table, {}) if table else changed)["nodez"] = 1
        yield table, changed


@pytest.mark.parametrize("path", JOB_FILES, ids=lambda path: path.parent.name)
def test_shipped_job_files_are_valid(path: Path) -> None:
    """Every shipped job file is valid for the published schema and for the parser."""
    text = path.read_text(encoding="utf-8")
    for component in component_requests(text, str(path)):
        effective_job(component_layers(text, str(path), component.name))
    if not component_requests(text, str(path)):
        job_layer(text, str(path))
    assert list(job_validator().iter_errors(read(path))) == []


@pytest.mark.parametrize("path", SITE_FILES, ids=lambda path: path.stem)
def test_shipped_site_files_are_valid(path: Path) -> None:
    """Every shipped site file is valid for the published schema and for the parser."""
    parse_site_file(path.read_text(encoding="utf-8"), str(path), path.stem)
    assert list(site_validator().iter_errors(read(path))) == []


def test_job_with_a_key_of_every_kind_is_valid() -> None:
    """A job that uses every table is valid for the published schema and for the parser."""
    tree = tomllib.loads(FULL_JOB)
    convert(tree, JobSpec, "full")
    assert list(job_validator().iter_errors(tree)) == []


@pytest.mark.parametrize("table", CLOSED_TABLES, ids=lambda table: table or "top")
def test_unknown_key_is_refused_at_any_depth(table: str) -> None:
    """One unknown key in any table makes a job invalid for the schema as for the parser."""
    tree = dict(with_unknown_keys(tomllib.loads(FULL_JOB)))[table]
    with pytest.raises(ConfigError, match="nodez"):
        convert(tree, JobSpec, "full")
    assert not job_validator().is_valid(tree)


@pytest.mark.parametrize("table", CLOSED_TABLES, ids=lambda table: table or "top")
def test_unknown_default_of_a_site_is_refused(table: str) -> None:
    """One unknown key in any table of a site's job defaults makes the site invalid."""
    job = {"slurm": {"partition": "main"}}
    tree = dict(with_unknown_keys(job))[table]
    site = {"schema": "hpckit.site/1", "name": "here"}
    assert site_validator().is_valid({**site, "job": job})
    assert not site_validator().is_valid({**site, "job": tree})


@pytest.mark.parametrize(("table", "key", "value"), WRONG_VALUES)
def test_wrong_value_is_refused_by_schema_and_parser(table: str, key: str, value: object) -> None:
    """A value of the wrong type or outside its limits is wrong for the schema and the parser."""
    tree = tomllib.loads(FULL_JOB)
    tree[table][key] = value
    with pytest.raises(ConfigError):
        refuse_launch(convert(tree, JobSpec, "full"))
    assert not job_validator().is_valid(tree)


@pytest.mark.parametrize("key", ["schema", "name", "command"])
def test_required_key_is_required(key: str) -> None:
    """A job file's schema, name and command are required by the published schema."""
    tree = tomllib.loads(FULL_JOB)
    del tree[key]
    assert not job_validator().is_valid(tree)


@pytest.mark.parametrize("key", ["schema", "command"])
def test_site_gives_no_default_for_what_a_job_says_itself(key: str) -> None:
    """A site's job defaults hold neither a schema nor a command."""
    site = {"schema": "hpckit.site/1", "name": "here", "job": {key: ["true"]}}
    assert not site_validator().is_valid(site)


def test_generated_pages_are_up_to_date() -> None:
    """docs/generate.py --check finds every generated page as the code would write it now."""
    assert generator().main(["--check"]) == 0


def test_the_pages_leave_the_commands_as_they_are() -> None:
    """A command still knows -h in the process that has written the pages."""
    code = "import docs.generate as g; g.cli_page(); g.cli(['submit', '-h'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout[:6]) == (0, b"Usage:")


def test_stale_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/generate.py --check exits 1, names each page that differs and writes nothing."""
    module = generator()
    for name, text in module.pages().items():
        (tmp_path / name).write_text(text + ("stale" if name == "cli.md" else ""))
    assert module.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "stale: docs/reference/cli.md (run `make docs`)\n"
    assert (tmp_path / "cli.md").read_text().endswith("stale")
