"""Job and site files: any text gives a value or a ConfigError; layers merge strongest first."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.core.document import Tree, dataclass_of, field_types
from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.fields import to_tree
from hpckit.script.checks import check_job
from hpckit.spec.job import JOB_SCHEMA, JobSpec, MeshAxis
from hpckit.spec.merge import OriginKind, effective_job, option_layer, parse_site_file, site_layer
from hpckit.spec.site import SITE_SCHEMA, SiteSpec, generic_site
from tests.fakes.layers import job_layer
from tests.fakes.prepared import toml

BASE: Tree = {"name": "x", "command": ["true"]}
HEAD = f'schema = "{JOB_SCHEMA}"\nname = "x"\ncommand = ["true"]\n'
KEYS = st.sampled_from(
    ["schema", "name", "command", "resources", "launch", "environment", "slurm", "tune", "parallel",
     "nodes", "kind", "mem", "pass", "set", "extra", "env", "tensor", "job", "submitter"]
) | st.text(max_size=6)  # fmt: skip
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.sampled_from(["plain", "torchrun", "1:00:00", "64G", JOB_SCHEMA]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def as_job(text: str) -> JobSpec:
    """A job file's text as a job."""
    return effective_job([job_layer(text, "job.toml")]).spec


def utf8(value: Any) -> bool:
    """Whether every text of a tree can stand in a UTF-8 file."""
    try:
        toml({"x": value}).encode()
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.text())
@example("a = " + "[" * 5000)
@example("a = " + "{a=" * 5000)
@example("nodes = " + "9" * 5000)
@example(HEAD + "resources.nodes = " + "9" * 4000)
@example(HEAD + "resources.nodes = 0x" + "f" * 5000)
@example(HEAD + "resources.nodes = 1979-05-27")
@example(HEAD + "resources.nodes = nan")
@example(HEAD + "slurm.extra.x = inf")
@example(HEAD + "parallel.tensor = 0x" + "f" * 5000)
@example(HEAD + "a" + ".a" * 3000 + " = 1")
@example("schema" + ".a" * 3000 + " = 1")
@example("schema = 0x" + "f" * 5000)
@example(HEAD + "slurm.extra" + ".a" * 3000 + " = 1")
@example(HEAD + "environment.set" + ".a" * 3000 + " = 1")
@example(HEAD + "resources" + ".a" * 3000 + " = 1")
@example("\x00")
@example("\r")
def test_any_text_is_a_job_or_a_config_error(text: str) -> None:
    """No text of a job or site file ends in anything but a value or a ConfigError."""
    for read in (as_job, lambda text: parse_site_file(text, "site.toml")):
        try:
            read(text)
        except ConfigError as error:
            assert str(error)


@given(VALUES, st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_tree_is_a_job_or_a_config_error(value: object, table: dict[str, object]) -> None:
    """The same for anything that TOML can hold, at the top and inside each table."""
    for tree in (table, {**BASE, "schema": JOB_SCHEMA, **table}, *_inside(value, table)):
        if not utf8(tree):
            continue
        try:
            as_job(toml(tree))
        except ConfigError as error:
            assert str(error)
        try:
            parse_site_file(toml({"schema": SITE_SCHEMA, "name": "x", "job": tree}), "site.toml")
        except ConfigError as error:
            assert str(error)


def _inside(value: object, table: dict[str, object]) -> Iterator[Tree]:
    for field, hint in field_types(JobSpec):
        yield {**BASE, "schema": JOB_SCHEMA, field.name: value}
        if dataclass_of(hint) is not None:
            yield {**BASE, "schema": JOB_SCHEMA, field.name: table}


@given(st.datetimes() | st.dates() | st.times())
def test_dates_are_refused(value: datetime.date | datetime.time) -> None:
    """A date, which TOML can hold, is no value of any key."""
    with pytest.raises(ConfigError):
        effective_job([option_layer({"name": (value, "--set"), "command": (["x"], "--")})])


def tables(cls: type, path: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """The dotted path of every closed table, and its keys."""
    names = []
    for field, hint in field_types(cls):
        name = field.name.removesuffix("_")
        names.append(name)
        inner = dataclass_of(hint)
        if inner is not None:
            yield from tables(inner, f"{path}{name}.")
    yield path, tuple(names)


JOB_TABLES = dict(tables(JobSpec))
SITE_TABLES = {**dict(tables(SiteSpec)), **{f"job.{path}": keys for path, keys in
                                            JOB_TABLES.items()}}  # fmt: skip


def with_key(base: Tree, path: str, name: str) -> Tree:
    """A tree with one more key in the table at a dotted path."""
    tree = copy.deepcopy(base)
    table = tree
    for part in path.split(".")[:-1]:
        table = table.setdefault(part, {})
    table[name] = 1
    return tree


@pytest.mark.parametrize("path", JOB_TABLES)
@given(data=st.data())
def test_an_added_key_is_refused(path: str, data: st.DataObject) -> None:
    """One key more, in any table of a job file, is refused by its path, with the valid keys."""
    names = JOB_TABLES[path]
    known = {name for keys in JOB_TABLES.values() for name in keys} | {"stages", "component"}
    name = data.draw(st.text(max_size=8).filter(lambda text: text not in known))
    near = data.draw(st.sampled_from(names))
    for added in (name, near + "s", near[1:] + "x"):
        if added in names or not utf8(added):
            continue
        tree = with_key({"schema": JOB_SCHEMA, **BASE}, path, added)
        with pytest.raises(ConfigError) as refusal:
            as_job(toml(tree))
        assert refusal.value.key == f"{path}{added}"
        assert refusal.value.source == "job.toml"
        assert near in (refusal.value.hint or "")
        if added == near + "s":
            assert f"did you mean `{near}`?" in (refusal.value.hint or "")


@pytest.mark.parametrize("path", SITE_TABLES)
@given(name=st.text(max_size=8))
def test_an_added_key_of_a_site_is_refused(path: str, name: str) -> None:
    """One key more, in any table of a site file, is refused by its path."""
    if name in SITE_TABLES[path] or not utf8(name):
        return
    tree = with_key({"schema": SITE_SCHEMA, "name": "x"}, path, name)
    with pytest.raises(ConfigError) as refusal:
        parse_site_file(toml(tree), "site.toml")
    assert refusal.value.key == f"{path}{name}"


LEAVES: dict[str, st.SearchStrategy[object]] = {
    "resources.nodes": st.integers(1, 9),
    "resources.cpus_per_task": st.integers(1, 9),
    "resources.gpus_per_node": st.integers(0, 8),
    "resources.exclusive": st.booleans(),
    "resources.time_limit": st.sampled_from(["1:00:00", "30"]),
    "launch.distribution": st.sampled_from(["block", "cyclic"]),
    "environment.inherit": st.sampled_from(["all", "none"]),
    "environment.modules": st.lists(st.sampled_from(["a", "b"]), max_size=2),
    "environment.set.A": st.sampled_from(["1", "2", ""]),
    "environment.set.B": st.sampled_from(["1", "2"]),
    "slurm.partition": st.sampled_from(["p", "q"]),
    "slurm.requeue": st.booleans(),
    "slurm.extra.nice": st.integers(0, 3),
    "slurm.extra.a-b": st.sampled_from(["x", True, False]),
    "tune.env.NCCL_DEBUG": st.sampled_from(["WARN", "INFO"]),
}
GIVEN = st.fixed_dictionaries({}, optional=LEAVES)


def nested(values: Mapping[str, object]) -> Tree:
    """Dotted keys as tables."""
    tree: Tree = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        table = tree
        for parent in parents:
            table = table.setdefault(parent, {})
        table[last] = value
    return tree


@given(GIVEN, GIVEN, GIVEN)
def test_the_strongest_layer_wins(
    typed: dict[str, object], said: dict[str, object], usual: dict[str, object]
) -> None:
    """Each key has the value of the strongest layer that names it, and its origin says which."""
    effective = effective_job(
        [
            option_layer({key: (value, f"--{key}") for key, value in typed.items()}),
            job_layer(toml({"schema": JOB_SCHEMA, **BASE, **nested(said)}), "job.toml"),
            site_layer(nested(usual), "here"),
        ]
    )
    origins = {one.key: one for one in effective.origins}
    tree = to_tree(effective.spec)
    for key in {*typed, *said, *usual}:
        value, kind, detail = next(
            (layer[key], kind, detail)
            for layer, kind, detail in (
                (typed, OriginKind.COMMAND_LINE, f"--{key}"),
                (said, OriginKind.JOB, "job.toml"),
                (usual, OriginKind.SITE, "site here"),
            )
            if key in layer
        )
        found = tree
        for part in key.split("."):
            found = found[part]
        assert found == value
        assert (origins[key].origin, origins[key].detail) == (kind, detail)
    said_keys = {"name", "command", *typed, *said, *usual}
    assert all(
        (one.origin is OriginKind.DEFAULT) == (key not in said_keys) for key, one in origins.items()
    )


@given(st.permutations(["A", "B*", "C"]), st.lists(st.sampled_from(["A", "B*", "D"]), unique=True))
def test_passed_variables_add_up(ours: list[str], theirs: list[str]) -> None:
    """`environment.pass` of a job adds to the site's, each name once, the site's first."""
    job = job_layer(toml({"schema": JOB_SCHEMA, **BASE, "environment": {"pass": ours}}), "job.toml")
    site = site_layer({"environment": {"pass": theirs}}, "here")
    merged = effective_job([option_layer({}), job, site]).spec.environment.pass_
    assert list(merged) == [*theirs, *(name for name in ours if name not in theirs)]


@given(GIVEN)
def test_the_digest_is_of_the_job(said: dict[str, object]) -> None:
    """The digest depends on the values, not on which layer gave them."""
    here = job_layer(toml({"schema": JOB_SCHEMA, **BASE, **nested(said)}), "job.toml")
    bare = job_layer(toml({"schema": JOB_SCHEMA, **BASE}), "other.toml")
    typed = option_layer({key: (value, "--set") for key, value in said.items()})
    assert effective_job([here]).digest == effective_job([typed, bare]).digest
    assert (effective_job([here]).digest == effective_job([bare]).digest) == (
        effective_job([here]).spec == effective_job([bare]).spec
    )


@given(
    st.dictionaries(st.sampled_from(list(MeshAxis)), st.integers(1, 6), max_size=5),
    st.integers(1, 6),
    st.integers(1, 8),
)
def test_a_mesh_is_all_ranks(mesh: dict[MeshAxis, int], nodes: int, per_node: int) -> None:
    """A mesh whose product is not the number of ranks is refused; `expert` takes no ranks."""
    product = 1
    for axis, size in mesh.items():
        product *= 1 if axis is MeshAxis.EXPERT else size
    tree = {
        "schema": JOB_SCHEMA,
        **BASE,
        "parallel": {str(axis): size for axis, size in mesh.items()},
        "resources": {"nodes": nodes, "ntasks_per_node": per_node},
    }
    spec = as_job(toml(tree))
    if set(mesh) <= {MeshAxis.EXPERT} or product == nodes * per_node:
        check_job(spec, generic_site())
    else:
        with pytest.raises(PlanError) as refusal:
            check_job(spec, generic_site())
        assert str(product) in refusal.value.need
        assert str(nodes * per_node) in refusal.value.have
