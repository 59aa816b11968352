"""Hostile text in every string field: refused with a typed error, or read back exactly.

The fields are found by walking the dataclasses, so a new field is covered by itself.
"""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest

from hpckit.core.document import Tree, dataclass_of, field_types
from hpckit.core.errors import ConfigError, PlanError, RenderError
from hpckit.core.fields import file_key, to_tree
from hpckit.script.launchers.registry import refuse_launch
from hpckit.script.quoting import sh_path
from hpckit.spec.job import JOB_SCHEMA, JobSpec
from hpckit.spec.merge import Layer, effective_job, option_layer, parse_site_file
from hpckit.spec.site import SITE_SCHEMA, SiteSpec
from tests.fakes.hostile import HOSTILE, is_utf8
from tests.fakes.layers import job_layer
from tests.fakes.prepared import prepared, toml
from tests.fakes.running import RECORD, Stage, nul_separated
from tests.fakes.sbatch_reader import directives, foreign_lines
from tests.sizes import some

REFUSALS = (ConfigError, PlanError, RenderError)
ENTRY_NAMES = ("HOSTILE", "x-hostile")
CONTROLS = ("x", "1", "X", "-x", "torchrun", "all", "block", "USR1", "2.27", "hpcx", "pyxis", "/x",
            "full", "bf16", "adam", "END")  # fmt: skip
PLAIN: Tree = {
    "name": "control",
    "command": ["show"],
    "resources": {"gpus_per_node": 1},
    "serve": {"port": 1},
}
TORCHRUN: Tree = {**PLAIN, "launch": {"kind": "torchrun"}, "serve": {}}
BASES = (PLAIN, TORCHRUN)
APART = ("conda", "args", "array")
"""Keys that cannot stand beside all others in one job (conda beside venv, an array beside a
server): in the torchrun one."""
AXES = (("parallel",), ("place", "volume"))
"""Tables whose names are the axes of a mesh."""
BATCHES = 8
RUN = some(range(BATCHES), 2)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text can stand in a document: a value, a list's item, a table's name or value."""

    path: tuple[str, ...]
    shape: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}:{self.shape}"

    def put(self, tree: Tree, text: str, entry: str = ENTRY_NAMES[0]) -> None:
        """Put `text` here, beside what is there."""
        *tables, last = self.path
        for name in tables:
            tree[name] = dict(tree.get(name, {}))
            tree = tree[name]
        if self.shape == "value":
            tree[last] = text
        elif self.shape == "item":
            tree[last] = [*tree.get(last, []), text]
        elif self.shape == "first":
            tree[last] = [text]
        elif self.shape == "entry":
            tree[last] = {**tree.get(last, {}), entry: text}
        else:
            tree[last] = {**tree.get(last, {}), text: 1 if last == "parallel" else "x"}


def places(cls: type, path: tuple[str, ...] = ()) -> Iterator[Place]:
    """Every place of a dataclass that a text can be put into."""
    for field, hint in field_types(cls):
        here = (*path, file_key(field))
        inner = dataclass_of(hint)
        if inner is not None:
            yield from places(inner, here)
        elif here == ("job",):
            yield from places(JobSpec, here)
        else:
            yield from (Place(here, shape) for shape in _shapes(hint))


def _shapes(hint: Any) -> Iterator[str]:
    if get_origin(hint) in (Union, UnionType):
        hint = next((one for one in get_args(hint) if one is not type(None)), hint)
    if hint is str or (isinstance(hint, type) and issubclass(hint, StrEnum)):
        yield "value"
    elif get_origin(hint) is tuple:
        yield from ("item", "first")
    elif isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
        yield "name"
        if str in (get_args(hint)[1], *get_args(get_args(hint)[1])):
            yield "entry"


JOB_PLACES = tuple(places(JobSpec))
SITE_PLACES = tuple(places(SiteSpec))


def layers_of(tree: Tree) -> list[Layer]:
    """The layers of a job given as a tree: by its TOML text, else as the command line gives it."""
    if all(is_utf8(part) for part in _texts(tree)):
        return [job_layer(toml({"schema": JOB_SCHEMA, **tree}), "job.toml")]
    return [option_layer({name: (value, "--set") for name, value in tree.items()})]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def accepted(tree: Tree) -> bool:
    """Whether the model takes the job; anything but a refusal is an error of the test."""
    try:
        effective_job(layers_of(tree), refuse_launch)
    except REFUSALS:
        return False
    return True


@cache
def takes(place: Place, text: str) -> bool:
    """Whether the model takes `text` at a place."""
    return accepted(with_text(place, text))


@cache
def context(place: Place) -> tuple[int, str]:
    """The job beside which a place accepts an ordinary text, and the name of its table's entry."""
    for number, entry, control in product(range(len(BASES)), ENTRY_NAMES, CONTROLS):
        tree = copy.deepcopy(BASES[number])
        place.put(tree, control, entry)
        if accepted(tree):
            return number, entry
    raise AssertionError(f"{place} takes none of {CONTROLS}: give it a control text")


def with_text(place: Place, text: str) -> Tree:
    """A job with `text` at one place."""
    number, entry = context(place)
    tree = copy.deepcopy(BASES[number])
    place.put(tree, text, entry)
    return tree


def refused_always(place: Place) -> bool:
    """The schema is one word; a table of other things than text has no free names."""
    return place.path == ("schema",) or (place.path in AXES and place.shape == "name")


FREE = tuple(place for place in JOB_PLACES if not refused_always(place))


@pytest.mark.parametrize("place", JOB_PLACES, ids=str)
def test_a_job_file_refuses_or_takes_it(place: Place) -> None:
    """Hostile text at any place of a job file is taken or refused with a typed error."""
    for text in HOSTILE:
        if not refused_always(place):
            takes(place, text)
            continue
        tree = dict(PLAIN)
        place.put(tree, text)
        assert not accepted(tree)


@pytest.mark.parametrize("place", SITE_PLACES, ids=str)
def test_a_site_file_refuses_or_takes_it(place: Place) -> None:
    """Hostile text at any place of a site file is taken or refused with a typed error."""
    for text in filter(is_utf8, HOSTILE[::5]):
        tree: Tree = {"schema": SITE_SCHEMA, "name": "here"}
        place.put(tree, text, ENTRY_NAMES[place.path[-1].endswith("extra")])
        try:
            site = parse_site_file(toml(tree), "here.toml")
        except REFUSALS:
            continue
        assert toml(to_tree(site)["job"]) == toml(tree.get("job", {}))


def scripts(text: str) -> Iterator[tuple[Tree, str]]:
    """The jobs that hold `text` at every place that takes it, and their scripts."""
    taken = [place for place in FREE if not _shell(place) and takes(place, text)]
    for number in range(len(BASES)):
        here = [place for place in taken if _stands(place, number)]
        yield from _together(number, here, text)


def _together(number: int, here: Sequence[Place], text: str) -> Iterator[tuple[Tree, str]]:
    """One job with as many of the places as a script can be rendered from."""
    tree = copy.deepcopy(BASES[number])
    for place in here:
        place.put(tree, text, context(place)[1])
    script = _rendered(tree)
    if script is not None:
        yield tree, script
    elif len(here) > 1:
        half = len(here) // 2
        yield from _together(number, here[:half], text)
        yield from _together(number, here[half:], text)


def _stands(place: Place, number: int) -> bool:
    if place.path[-1] in ("mem_per_cpu", "mem_per_gpu", "secrets", "secret_files"):
        return False  # beside `mem`; and what gives secrets is no bare script
    if place.path[-1] in APART or place == Place(("command",), "first"):
        return number == 1
    return number == 0 and place.shape != "first"


def _shell(place: Place) -> bool:
    """Setup lines are shell, run as they stand."""
    return place.path == ("environment", "setup")


def _rendered(tree: Tree) -> str | None:
    options = {}
    text: str | None = None
    if all(map(is_utf8, _texts(tree))):
        text = toml(tree)
    else:
        options = tree
    try:
        return prepared(text, options=options, site=None).script.text
    except REFUSALS:
        return None


def expected_directives(tree: Tree) -> dict[str, str]:
    """The directives that the text at the places of a job must read back as."""
    slurm = tree.get("slurm", {})
    found = {name.replace("_", "-"): value for name, value in slurm.items() if _is_text(value)}
    found |= slurm.get("extra", {})
    if "mail_type" in slurm:
        found["mail-type"] = ",".join(slurm["mail_type"])
    return {**found, "job-name": tree["name"]}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def check_directives(tree: Tree, script: str) -> None:
    """Both readers of sbatch take the options of the job, each once, exactly, and no other."""
    base = {"job-name", "no-requeue", "nodes", "ntasks-per-node", "open-mode"}
    expected = expected_directives(tree)
    may = (
        base
        | set(expected)
        | {"cpus-per-task", "gpus-per-node", "mem", "mem-per-cpu", "mem-per-gpu", "time"}
    )
    no_such_option = any("job" in name for name in tree.get("slurm", {}).get("extra", {}))
    for old in (False,) if no_such_option else (False, True):
        words = directives(script, old=old)
        names = [word.removeprefix("--").split("=", 1)[0] for word in words]
        assert sorted(set(names)) == sorted(names)
        assert base <= set(names) <= may
        read = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        assert read["nodes"] == "1"
        for name, value in expected.items():
            assert read[name] == value, (name, old)
    assert foreign_lines(script) == []


SRUN = """\
#!/bin/bash
printf '%s\\0' "$@" >srun
env -0 >environment
while [[ $1 == --* ]]; do shift; done
if [[ $1 == bash || $1 == show || $1 == apptainer || $1 == singularity ]]; then "$@"; fi
"""
APPTAINER = """\
#!/bin/bash
shift
while [[ $1 == -* ]]; do
  if [[ $1 == --bind || $1 == --pwd ]]; then shift; fi
  shift
done
printf '%s\\0' "$1" >image
shift
"$@"
"""
FUNCTIONS = """\
module() { printf '%s\\0' "$@" >>module; }
conda() {
  if [[ $1 == shell.bash ]]; then echo 'hook=1'; else printf '%s\\0' "$@" >conda; fi
}
source() { printf '%s\\0' "$@" >source; }
"""
_DRIVER = """\
SAW=$PWD HOME=/home/me SLURM_JOB_ID=1 SLURMD_NODENAME=node1 CANARY=$PWD/canary
export SAW HOME SLURM_JOB_ID SLURMD_NODENAME CANARY
export -f module conda source
for folder in */; do
  (cd "$folder" && SAW=$PWD bash ./job.sbatch >stdout 2>stderr </dev/null; echo $? >rc)
done
"""


def run_all(folder: Path, jobs: list[tuple[Tree, str]]) -> None:
    """Run every script in a folder of its own, all under one shell."""
    stage = Stage(folder / "stage")
    stage.program("torchrun", RECORD)
    stage.program("srun", SRUN)
    stage.program("apptainer", APPTAINER)
    stage.program("singularity", APPTAINER)
    runs = folder / "runs"
    for number, (_, script) in enumerate(jobs):
        (runs / str(number)).mkdir(parents=True)
        (runs / str(number) / "job.sbatch").write_text(script, encoding="utf-8", newline="\n")
    subprocess.run(
        ["bash", "-c", FUNCTIONS + _DRIVER],
        cwd=runs,
        env={"PATH": f"{stage.bin}:/usr/bin:/bin"},
        timeout=60,
        check=True,
    )
    assert not (runs / "canary").exists()


def check_run(tree: Tree, folder: Path) -> None:
    """The words reached the program, the step, the environment and the tools exactly."""
    assert (folder / "rc").read_text() == "0\n", (folder / "stderr").read_text()
    environment = tree.get("environment", {})
    step = nul_separated(folder / "srun") or []
    command = list(tree["command"])
    given = nul_separated(folder / "torchrun")
    if given is None:
        assert step[-len(command) :] == command
        assert command[0] != "show" or nul_separated(folder / "show") == command[1:]
    else:
        args = tree["launch"].get("args", [])
        assert given[5:] == [*args, "--no-python", *command]
    for name, value in tree.get("slurm", {}).get("srun_extra", {}).items():
        assert f"--{name}={value}" in step
    image = tree.get("container", {}).get("image")
    if image and not image.startswith("~") and tree["container"].get("runtime") != "pyxis":
        assert nul_separated(folder / "image") == [image]
    seen = dict(one.split("=", 1) for one in nul_separated(folder / "environment") or [])
    for name, value in {
        **environment.get("set", {}),
        **tree.get("tune", {}).get("env", {}),
    }.items():
        assert seen[name] == value
    loads = [word for name in environment.get("modules", []) for word in ("load", name)]
    assert (nul_separated(folder / "module") or []) == loads
    if "conda" in environment:
        assert nul_separated(folder / "conda") == ["activate", environment["conda"]]
    if "venv" in environment:
        home = "/home/me" if sh_path(environment["venv"]).startswith('"$HOME"') else ""
        bare = environment["venv"].removeprefix("~") if home else environment["venv"]
        assert nul_separated(folder / "source") == [f"{home}{bare}/bin/activate"]
    known = {"rc", "stdout", "stderr", "job.sbatch", "srun", "environment", "torchrun", "show"}
    assert {path.name for path in folder.iterdir()} <= known | {
        "module",
        "conda",
        "source",
        "image",
    }


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_taken_is_read_back_exactly(batch: int, tmp_path: Path) -> None:
    """Text that is taken reaches sbatch, the step, the tools and the program; none of it runs."""
    jobs = [job for text in HOSTILE[batch::BATCHES] for job in scripts(text)]
    assert len(jobs) > len(HOSTILE) // BATCHES
    for tree, script in jobs:
        check_directives(tree, script)
    if batch not in RUN:
        return
    run_all(tmp_path, jobs)
    for number, (tree, _) in enumerate(jobs):
        check_run(tree, tmp_path / "runs" / str(number))


def test_setup_lines_cannot_speak_to_sbatch() -> None:
    """A setup line that is taken adds no directive, of sbatch or of another scheduler."""
    for text in HOSTILE:
        tree = {**PLAIN, "environment": {"setup": [text]}}
        script = _rendered(tree)
        if script is not None:
            check_directives(tree, script)
