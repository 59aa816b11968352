"""Writes the reference pages that follow from the code, and the JSON Schemas for editors.

`python docs/generate.py` writes them; with `--check` nothing is written and the exit code is 1
when a page differs from what the code says.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from hpckit.account import activity as states
from hpckit.account import rules as report_rules
from hpckit.account import usage as judged
from hpckit.account.finding import share
from hpckit.account.page.exports import COLUMNS as CSV_COLUMNS
from hpckit.account.values import REPORT_SCHEMA, JobReport
from hpckit.cli.fabric import nodes_of
from hpckit.cli.main import COMMANDS, cli
from hpckit.cli.place import svg as placement_svg
from hpckit.comm import rules as comm_env
from hpckit.comm.explain import when_words
from hpckit.comm.lint import FAMILIES, lint_faults
from hpckit.comm.run import rules as nccl_rules
from hpckit.core.document import dataclass_of, field_types, rows_of, table_of
from hpckit.core.fields import RULE, KeyRule, file_key
from hpckit.core.findings import Finding, Rule
from hpckit.fabric.file import read_fabric
from hpckit.fabric.rules import FABRIC_RULES
from hpckit.node.answers import NodeAnswer, silent_node
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.picture.picture import node_svg
from hpckit.node.rules import rules as finding_rules
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import TOPOLOGY_SCHEMA, NodeTopology
from hpckit.placement.place import PlaceQuestion, place_on
from hpckit.planner import accelerators
from hpckit.planner.accelerators import ACCELERATORS
from hpckit.script.launchers.registry import LAUNCHERS
from hpckit.script.releases import OPTION_FACTS, PAIR_FACTS
from hpckit.slurm.pending import explain_pending
from hpckit.slurm.pending_reasons import TEXTS, WORDS
from hpckit.slurm.values import SlurmVersion
from hpckit.spec.components import LEAST_COMPONENTS, MOST_COMPONENTS, ComponentRequest
from hpckit.spec.job import JOB_SCHEMA, JobSpec, LaunchRequest, MeshAxis
from hpckit.spec.options import (
    COMPONENT_KEY,
    STAGE_NAME_PATTERN,
    STAGES_KEY,
    parse_mesh,
    parse_volumes,
)
from hpckit.spec.site import SITE_SCHEMA, SiteSpec

REFERENCE = Path(__file__).resolve().parent / "reference"
NOT_A_SITE_DEFAULT = ("schema", "command")
STAGE_NAME_DOC = "Name of the stage, unlike the others'; the job is called `<name>-<stage>`."
STAGES_DOC = (
    "A chain instead of one job: each stage is a job that begins when the one before has completed."
)
_STAGES = """
## `[[stages]]`

{doc}
A file with stages has no `command` at the top. Each stage takes the keys of the whole file except
`schema` and `stages`, in its own tables; they override those at the top of the file, which all
stages share, and under the options of the command line, which are for all stages.
[Arrays and chains](../howto/arrays-and-chains.md) shows one.

{table}"""
COMPONENTS_DOC = (
    "One heterogeneous job instead: its components run beside each other, each on its own nodes."
)
_COMPONENTS = """
## `[[component]]`

{doc}
A file with components has no `command` at the top either. Each component takes the keys of the
whole file except `schema` and `slurm.array`, as a stage does, and those below.
[Run components beside each other](../howto/run-components.md) shows one.

{table}"""
_NOTE = "<!-- Written by docs/generate.py. Change the code, then run `make docs`. -->\n"
_FILE_PAGE = """\
{note}
# The {what} file

`{schema}` in TOML. A key that is not listed here is an error, and the error names the nearest valid
key. The same as JSON Schema, for editors: [{schema_file}]({schema_file}). Editors that use Taplo
find their copy of it by a first line such as:

```toml
#:schema ./{schema_file}
```

A default of – means that the key is unset: the script then has no line for it.
"""
_SITE_JOB = """
## `[job]`: defaults for jobs

Every table and key of [the job file](job-file.md) except {excluded}, one level deeper:

```toml
[job.slurm]
partition = "main"

[job.environment]
modules = ["cuda/12.4"]
```

A job file's own value replaces a site's default; `environment.pass` alone adds up over the layers.
"""


def main(words: list[str], folder: Path = REFERENCE) -> int:
    """Write every page to `folder`, or compare with `--check`: then 1 if a page is stale."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(words).check
    stale = 0
    for name, text in pages().items():
        path = folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            sys.stderr.write(f"stale: docs/reference/{name} (run `make docs`)\n")
            stale = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return stale


def pages() -> dict[str, str]:
    """File name under docs/reference → its text."""
    return {
        "job-file.md": job_page(),
        "site-file.md": site_page(),
        "cli.md": cli_page(),
        "findings.md": findings_page(),
        "fabric.md": fabric_page(),
        "tune-rules.md": tune_rules_page(),
        "lint-rules.md": lint_rules_page(),
        "run-rules.md": run_rules_page(),
        "report-findings.md": report_findings_page(),
        "pending-reasons.md": reasons_page(),
        "slurm-facts.md": facts_page(),
        "topology.md": topology_page(),
        "accelerators.md": accelerators_page(),
        "dgx-h100.svg": node_picture(),
        "placed-nodes.svg": placement_picture(),
        "report.md": report_page(),
        schema_file(REPORT_SCHEMA): _as_json(report_schema()),
        schema_file(TOPOLOGY_SCHEMA): _as_json(topology_schema()),
        schema_file(JOB_SCHEMA): _as_json(job_schema()),
        schema_file(SITE_SCHEMA): _as_json(site_schema()),
    }


def schema_file(schema: str) -> str:
    """The file name of a published schema: `hpckit.job/1` is in `hpckit.job-1.schema.json`."""
    return f"{schema.replace('/', '-')}.schema.json"


def _as_json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


# --- JSON Schema ---------------------------------------------------------------------------------


def job_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a job file: one command, stages, or components."""
    definitions = _definitions(JobSpec)
    job = definitions[JobSpec.__name__]
    definitions["Stage"] = _stage(job)
    stages = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Stage"}}
    job["properties"][STAGES_KEY] = {"description": STAGES_DOC, **stages}
    job["required"] = [name for name in job["required"] if name != "command"]
    definitions |= _definitions(ComponentRequest)
    request = definitions[ComponentRequest.__name__]
    both = {**definitions["Stage"]["properties"], **request["properties"]}
    definitions[ComponentRequest.__name__] = {
        **request,
        "properties": both,
        "required": ["name", "command"],
    }
    components = {
        "type": "array",
        "minItems": LEAST_COMPONENTS,
        "maxItems": MOST_COMPONENTS,
        "items": {"$ref": f"#/$defs/{ComponentRequest.__name__}"},
    }
    job["properties"][COMPONENT_KEY] = {"description": COMPONENTS_DOC, **components}
    ways = ("command", STAGES_KEY, COMPONENT_KEY)
    job["oneOf"] = [{"required": [way]} for way in ways]
    return _published(JOB_SCHEMA, "hpckit job file", definitions, JobSpec)


def _stage(job: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: made for name, made in job["properties"].items() if name != "schema"}
    pattern = {"type": "string", "pattern": f"^{STAGE_NAME_PATTERN}$"}
    properties["name"] = {"description": STAGE_NAME_DOC, **pattern}
    return {
        **job,
        "title": "Stage",
        "description": "One job of a chain.",
        "properties": properties,
        "required": ["name", "command"],
    }


def site_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a site file; its `job` is a job in which nothing is required."""
    definitions = {**_definitions(SiteSpec), **_definitions(JobSpec)}
    job = definitions.pop(JobSpec.__name__)
    for name in NOT_A_SITE_DEFAULT:
        del job["properties"][name]
    job |= {
        "title": "SiteJob",
        "description": "Defaults for any key of a job file.",
        "required": [],
    }
    definitions["SiteJob"] = job
    site = definitions[SiteSpec.__name__]["properties"]
    site["job"] = {"$ref": "#/$defs/SiteJob", "description": site["job"]["description"]}
    return _published(SITE_SCHEMA, "hpckit site file", definitions, SiteSpec)


def _published(schema: str, title: str, definitions: dict[str, Any], root: type) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:hpckit:{schema.removeprefix('hpckit.').replace('/', ':')}",
        "title": title,
        **definitions.pop(root.__name__),
        "$defs": dict(sorted(definitions.items())),
    }


def _of_any_msgspec(tree: Any) -> Any:
    """Return a schema as every release of msgspec makes it: 0.23 differs from those before.

    It says that the default of a table is an empty one, and takes the indents off docstrings.
    """
    if isinstance(tree, list):
        return [_of_any_msgspec(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    found = {name: _of_any_msgspec(part) for name, part in tree.items()
             if name != "default" or part != {}}  # fmt: skip
    if isinstance(found.get("description"), str):
        found["description"] = inspect.cleandoc(found["description"])
    if "propertyNames" in found:
        found["propertyNames"] = found.pop("propertyNames")
    return found


def _definitions(cls: type) -> dict[str, Any]:
    """What msgspec knows of a dataclass and those inside it, made as strict as the parser."""
    definitions: dict[str, Any] = _of_any_msgspec(msgspec.json.schema(cls)["$defs"])
    for one in _dataclasses(cls):
        made = definitions[one.__name__]
        made["properties"] = {
            file_key(field): _property(made["properties"][field.name], field, hint)
            for field, hint in field_types(one)
        }
        made["required"] = [name.removesuffix("_") for name in made["required"]]
        made["additionalProperties"] = False
    return definitions


def _dataclasses(cls: type) -> Iterator[type]:
    yield cls
    for _, hint in field_types(cls):
        inner = dataclass_of(hint) or table_of(hint)
        if inner is not None:
            yield from _dataclasses(inner)


def _property(made: dict[str, Any], field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    rule = _rule(field)
    made = _without_null(made)
    if rule is not None:
        made = {"description": rule.doc, **made, **rule.schema}
    if typing.get_args(hint)[:1] == (MeshAxis,):
        made["propertyNames"] = {"$ref": f"#/$defs/{MeshAxis.__name__}"}
    return made


def _without_null(made: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: what may be absent is simply not required."""
    alternatives = [one for one in made.get("anyOf", []) if one != {"type": "null"}]
    kept = {name: value for name, value in made.items() if name not in ("anyOf", "default")}
    if made.get("default") is not None:
        kept["default"] = made["default"]
    if len(alternatives) == 1:
        return {**alternatives[0], **kept}
    return {**kept, "anyOf": alternatives} if alternatives else kept


# --- job and site files --------------------------------------------------------------------------


def job_page() -> str:
    """The reference of the job file: a table for each of its tables."""
    parts = [_file_head("job", JOB_SCHEMA), "\n## Top level\n\n", _key_table(JobSpec)]
    for name, inner in _tables(JobSpec):
        parts.append(f"\n## `{name}`\n\n{_sentence(inner)}\n\n{_key_table(inner)}")
    rows = [
        ("`name`", "text", "required", STAGE_NAME_DOC),
        ("`command`", "list of text", "required", "As at the top of a file without stages."),
    ]
    table = _table(("key", "type", "default", "meaning"), rows)
    parts.append(_STAGES.format(doc=STAGES_DOC, table=table))
    table = _key_table(ComponentRequest)
    parts.append(_COMPONENTS.format(doc=COMPONENTS_DOC, table=table))
    return "".join(parts)


def site_page() -> str:
    """The reference of the site file."""
    excluded = " and ".join(f"`{name}`" for name in NOT_A_SITE_DEFAULT)
    tables = "".join(
        f"\n## `{name}`\n\n{_sentence(inner)}\n\n{_key_table(inner)}"
        for name, inner in _tables(SiteSpec)
    )
    return (
        f"{_file_head('site', SITE_SCHEMA)}\n## Top level\n\n{_key_table(SiteSpec)}"
        f"{tables}{_SITE_JOB.format(excluded=excluded)}"
    )


def _file_head(what: str, schema: str) -> str:
    return _FILE_PAGE.format(
        note=_NOTE.rstrip(), what=what, schema=schema, schema_file=schema_file(schema)
    )


def _tables(cls: type) -> Iterator[tuple[str, type]]:
    for field, hint in field_types(cls):
        inner, of_each = dataclass_of(hint), table_of(hint)
        if inner is not None:
            yield f"[{file_key(field)}]", inner
            yield from _rows(inner, file_key(field))
        elif of_each is not None:
            yield f"[{file_key(field)}.NAME]", of_each


def _rows(cls: type, table: str) -> Iterator[tuple[str, type]]:
    """The lists of tables that stand in a table."""
    for field, hint in field_types(cls):
        rows = rows_of(hint)
        if rows is not None:
            yield f"[[{table}.{file_key(field)}]]", rows


def _sentence(cls: type) -> str:
    """The docstring's first line, without the name of the table that stands above it."""
    text = (cls.__doc__ or "").partition("\n")[0]
    text = re.sub(r"^`\[+[\w.]+\]+`: ", "", text)
    return text[:1].upper() + text[1:]


def _key_table(cls: type) -> str:
    rows = [
        (f"`{file_key(field)}`", _type_of(rule, hint), _default_words(field), rule.doc)
        for field, hint in field_types(cls)
        if (rule := _rule(field)) is not None
    ]
    return _table(("key", "type", "default", "meaning"), rows)


def _rule(field: dataclasses.Field[Any]) -> KeyRule | None:
    """The rule of a key; what `launch.kind` may be is for the launchers to say."""
    rule: KeyRule | None = field.metadata.get(RULE)
    if field not in dataclasses.fields(LaunchRequest) or field.name != "kind":
        return rule
    kinds = "; ".join(f"`{kind}`: {launcher.summary}" for kind, launcher in LAUNCHERS.items())
    return KeyRule(doc=f"{kinds}.", schema={"enum": list(LAUNCHERS)})


def _type_of(rule: KeyRule, hint: Any) -> str:
    words = rule.schema.get("enum")
    return _type_words(hint) if words is None else ", ".join(f"`{word}`" for word in words)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def _type_words(hint: Any) -> str:
    plain = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Any: "any",
    }
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return ", ".join(f"`{word}`" for word in hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclass_of(hint) is not None:
        return "table"
    if origin is tuple:
        return f"list of {_type_words(arguments[0])}"
    if origin is Mapping:
        return _mapping_words(*arguments)
    if isinstance(hint, types.UnionType):
        return ", ".join(_type_words(one) for one in arguments if one is not types.NoneType)
    return plain[hint]


def _mapping_words(names: Any, values: Any) -> str:
    keys = "" if names is str else f"{_type_words(names)} → "
    return "table" if values is Any else f"table of {keys}{_type_words(values)}"


def _default_words(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "empty"
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default is None:
        return "–"
    if field.default in ((), ""):
        return "empty"
    return f"`{json.dumps(field.default)}`"


# --- releases of Slurm ---------------------------------------------------------------------------

_FACTS_HEAD = """\
# What releases of Slurm take

`hpckit render` and `hpckit submit` hold the options of sbatch and srun against these rows, also
those of `[slurm.extra]` and `[slurm.srun_extra]`. An option that hpckit writes itself is refused
there on any release; its rows say why. Each row was tried on sbatch and srun of Slurm
22.05, 24.11 and 26.05; for the releases between them stands its source. CL is
`CHANGELOG/slurm-<line>.md` of Slurm's source, `slurm_opt.c` is `src/common/slurm_opt.c`.

"""
_OLDEST = "22.05"


def facts_page() -> str:
    """The reference of what releases take: one row a fact."""
    options = [
        (
            f"`--{fact.option}`",
            ", ".join(fact.programs),
            "never" if fact.until == _OLDEST else fact.since or "–",
            "–" if fact.until == _OLDEST else fact.until or "–",
            ", ".join(fact.topologies) or "all",
            fact.instead if fact.is_refused else f"(Slurm ignores it) {fact.instead}",
            fact.source,
        )
        for fact in OPTION_FACTS
    ]
    pairs = [
        (
            f"`--{fact.first}` `--{fact.second}`",
            ", ".join(fact.programs),
            fact.since or "all",
            "refused" if fact.is_refused else "the first is ignored",
            fact.instead,
            fact.source,
        )
        for fact in PAIR_FACTS
    ]
    return (
        f"{_NOTE}{_FACTS_HEAD}## Options\n\n"
        + _table(("option", "of", "from", "until", "topology", "instead", "source"), options)
        + "\n## Pairs that exclude each other\n\n"
        + _table(("options", "of", "from", "what happens", "instead", "source"), pairs)
    )


# --- why jobs wait -------------------------------------------------------------------------------

_LIMITS = (
    "QOSGrpGRES", "QOSGrpCPUMinutesLimit", "QOSGrpGRESRunMinutes", "QOSGrpWallLimit",
    "QOSGrpJobsLimit", "QOSGrpSubmitJobsLimit", "QOSMaxGRESPerUser", "MaxGRESPerAccount",
    "MaxGRESRunMinsPerUser", "QOSMaxJobsPerUserLimit", "QOSMaxSubmitJobPerUserLimit",
    "QOSMaxGRESPerJob", "QOSMaxMemoryPerNode", "QOSMaxGRESMinutesPerJob",
    "QOSMaxWallDurationPerJobLimit", "QOSMinGRES", "AssocGrpGRES", "AssocGrpCPUMinutesLimit",
    "AssocGrpCPURunMinutesLimit", "AssocGrpWallLimit", "AssocGrpJobsLimit", "AssocMaxJobsLimit",
    "AssocMaxGRESPerJob",
)  # fmt: skip


def reasons_page() -> str:
    """Return the reference of pending reasons, with an example of each family of limits."""
    page = (Path(__file__).parent / "pending-head.txt").read_text(encoding="utf-8")
    tables = {"words": [*WORDS], "sentences": [text.example for text in TEXTS], "limits": _LIMITS}
    header = ("Reason", "Meaning", "What helps", "Starts")
    for name, reasons in tables.items():
        table = _table(header, [_reason_cells(reason) for reason in reasons])
        page = page.replace(f"{{{name}}}", table.rstrip())
    return _NOTE + page


def _reason_cells(reason: str) -> tuple[str, ...]:
    explained = explain_pending(reason)
    starts = "never as it stands" if explained.hopeless else ""
    return f"`{reason}`", explained.meaning, explained.help or "only waiting does", starts


# --- a node --------------------------------------------------------------------------------------

_TOPOLOGY_HEAD = """\
# The topology of a node

`{schema}`: what `hpckit inspect --json` prints, and what `hpckit inspect FILE` reads back. Every
key is always there; `null` is "not known", and `unknown` says why where the source can tell. The
same as JSON Schema: [{schema_file}]({schema_file}). Three keys stand beside those of the first
table: `schema`, `hpckit` (the version that wrote it) and `findings`: [what is wrong](findings.md).

"""


# --- rules ---------------------------------------------------------------------------------------

_RULE_HEAD = ("Rule", "Severity", "Meaning", "What to do", "Source")
_SILENT = (
    "With `--nodes` or `--job`: Slurm does not know the node or cannot reach it, or it gave no"
    " answer."
)


def _rules_page(name: str, **parts: object) -> str:
    """A reference page: docs/NAME-head.txt with its parts in the place of their names."""
    text = (REFERENCE.parent / f"{name}-head.txt").read_text(encoding="utf-8")
    for part, value in parts.items():
        text = text.replace(f"{{{part}}}", str(value).rstrip())
    return _NOTE + text


def _cells(rule: Rule[Any], subject: str = "GPU5") -> tuple[str, ...]:
    """The row of a rule in a table under `_RULE_HEAD`."""
    remedy = rule.remedy_for(subject)
    return f"`{rule.name}`", rule.severity, rule.because, remedy, rule.dated_source


def _gravest_first(rules: Sequence[Rule[Any]]) -> list[Rule[Any]]:
    return sorted(rules, key=lambda rule: -rule.severity.rank)


def findings_page() -> str:
    """The rules of `hpckit inspect`, and that of a node of which nothing was seen."""
    silent = silent_node(NodeAnswer(node="NODE"))
    rows = [
        _cells(rule, "mlx5_3" if "{subject}" in rule.remedy else "GPU5")
        for rule in _gravest_first(finding_rules.RULES)
    ]
    errors = sum(rule.severity is silent.severity for rule in finding_rules.RULES)
    source = "scontrol(1): show node"
    rows.insert(errors, (f"`{silent.rule}`", silent.severity, _SILENT, silent.remedy, source))
    return _rules_page("findings", rules=_table(_RULE_HEAD, rows))


def fabric_page() -> str:
    """The reference of fabrics, with the rules of `fabric check`."""
    return _rules_page("fabric", rules=_table(_RULE_HEAD, [*map(_cells, FABRIC_RULES)]))


def run_rules_page() -> str:
    """The rules of `hpckit tune --compare`."""
    rows = [_cells(rule) for rule in _gravest_first(nccl_rules.RULES)]
    return _rules_page("run-rules", rules=_table(_RULE_HEAD, rows))


def lint_rules_page() -> str:
    """The rules of `hpckit tune --lint`."""
    parts = []
    for title, rules in FAMILIES:
        about = {rule.name: ", ".join(f"`{name}`" for name in rule.names) for rule in rules}
        rows = [
            (f"`{one.rule}`", about[one.rule], one.severity, one.because, one.remedy, one.source)
            for one in lint_faults(rules)
        ]
        head = (_RULE_HEAD[0], "About", *_RULE_HEAD[1:])
        parts.append(f"## {title}\n\n{_table(head, rows)}")
    return _rules_page("lint-rules", families="\n".join(parts))


def tune_rules_page() -> str:
    """The rules of `hpckit tune`: what is set where, and what no variable changes."""
    rules = [
        (f"`{rule.variable}`", f"`{rule.value}`", when_words(rule.when), rule.because,
         f"`{rule.name}`: {rule.dated_source}")
        for rule in comm_env.RULES
    ]  # fmt: skip
    advice = [
        (when_words(rule.when), rule.because, rule.remedy, f"`{rule.name}`: {rule.dated_source}")
        for rule in comm_env.ADVICE
    ]
    tables = (
        _table(("Variable", "Value", "Where", "Because", "Rule and source"), rules),
        _table(("Where", "What", "What to do", "Rule and source"), advice),
    )
    shown = [table.replace("{{", "{").replace("}}", "}") for table in tables]
    return _rules_page("tune-rules", rules=shown[0], advice=shown[1])


def report_findings_page() -> str:
    """The rules of `hpckit report`."""
    rows = []
    for rule in report_rules.RULES:
        name, severity, because, remedy, source = _cells(rule)
        rows.append((name, severity, because, rule.threshold, remedy, source))
    most = states.IDLE_MOST_FRAC
    return _rules_page(
        "report-findings",
        rules=_table((*_RULE_HEAD[:3], "From when on", *_RULE_HEAD[3:]), rows),
        known=share(judged.KNOWN_FRAC),
        judged=f"{judged.JUDGED_S:.0f}",
        util=states.SPIN_UTIL_PCT,
        tensor=f"{states.SPIN_TENSOR_PCT100 / 100:g}",
        sm=f"{states.SPIN_SM_PCT100 / 100:g}",
        dram=f"{states.SPIN_DRAM_PCT100 / 100:g}",
        transfer=f"{states.TRANSFER_DRAM_PCT100 / 100:g}",
        rate=f"{states.TRANSFER_MIB_PER_S / 1024:g}",
        power=share(states.QUIET_POWER_FRAC),
        untold=share(most + states.QUIET_POWER_FRAC * (1 - most)),
    )


_REPORT_HEAD = (Path(__file__).parent / "report-head.txt").read_text(encoding="utf-8")


def topology_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of the document of `hpckit inspect --json`."""
    findings = {"type": "array", "items": {"$ref": f"#/$defs/{Finding.__name__}"}}
    made = _document_schema(TOPOLOGY_SCHEMA, "topology of a node", NodeTopology, Finding)
    made["properties"]["findings"] = findings
    made["required"].append("findings")
    return made


def report_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of the document of `hpckit report --json`."""
    return _document_schema(REPORT_SCHEMA, "report on a job", JobReport)


def _document_schema(schema: str, title: str, root: type, *more: type) -> dict[str, Any]:
    """The schema of a document that has every key of `root`, and `schema` and `hpckit`."""
    components = msgspec.json.schema_components([root, *more], ref_template="#/$defs/{name}")
    definitions: dict[str, Any] = _of_any_msgspec(components[1])
    for made in definitions.values():
        if made.get("type") == "object":
            made["required"] = list(made["properties"])
            made["additionalProperties"] = False
    top = definitions.pop(root.__name__)
    beside = {"schema": {"const": schema}, "hpckit": {"type": "string"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:hpckit:{schema.removeprefix('hpckit.').replace('/', ':')}",
        **top,
        "title": f"hpckit {title}",
        "properties": {**beside, **top["properties"]},
        "required": [*beside, *top["required"]],
        "$defs": dict(sorted(definitions.items())),
    }


def accelerators_page() -> str:
    """The cards that `hpckit plan` knows."""
    rows = [
        (
            card.name,
            card.vendor,
            f"{card.flops / 1e12:g}",
            _unsaid(card.flops_fp8, 1e12),
            _unsaid(card.matmul_flops, 1e12),
            f"{card.memory_bytes / 1024**2:.0f}",
            f"{card.memory_bytes_per_s / 1e9:g}",
            _unsaid(card.tdp_w, 1),
            f"{card.link} {_unsaid(card.link_bytes_per_s, 1e9)} · {card.scale_up_gpus}",
            _unsaid(card.nic_bytes_per_s, 1e9 / 8),
            card.note or "",
        )
        for card in ACCELERATORS
    ]
    header = (
        "card", "maker", "bf16 TFLOP/s", "fp8", "measured bf16 products", "memory, MiB", "GB/s",
        "rated W", "links, GB/s a direction · GPUs joined", "network, Gb/s a GPU", "note",
    )  # fmt: skip
    return (
        f"{_NOTE}\n# Accelerators\n\n{inspect.getdoc(accelerators) or ''}\n\n"
        "Of dense products, never of sparse ones. What is empty is unknown: its maker publishes\n"
        "none. A cluster describes its own in its [site file](site-file.md)\n"
        "(`[accelerators.NAME]`).\n\n"
        f"{_table(header, rows)}"
    )


def _unsaid(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:g}"


def topology_page() -> str:
    """The reference of the document: each class of the model with its fields."""
    head = _TOPOLOGY_HEAD.format(schema=TOPOLOGY_SCHEMA, schema_file=schema_file(TOPOLOGY_SCHEMA))
    return _document_page(head, NodeTopology)


def report_page() -> str:
    """The reference of `hpckit report`: what it prints, and each class of the document."""
    head = _REPORT_HEAD.format(
        schema=REPORT_SCHEMA,
        schema_file=schema_file(REPORT_SCHEMA),
        columns="\n".join(f"| `{column}` |" for column in CSV_COLUMNS),
    )
    return _document_page(head, JobReport)


def _document_page(head: str, root: type) -> str:
    parts = [_NOTE, head]
    for cls in dict.fromkeys(_model_classes(root)):
        hints = typing.get_type_hints(cls)
        rows = [(f"`{name}`", _model_words(hint)) for name, hint in hints.items()]
        title = "The document" if cls is root else cls.__name__
        doc = _unwrapped(inspect.cleandoc(cls.__doc__ or ""))
        parts.append(f"## {title}\n\n{doc}\n\n{_table(('key', 'type'), rows)}\n")
    return "".join(parts).rstrip() + "\n"


def node_picture() -> str:
    """The picture of the made-up machine in examples/."""
    data = (REFERENCE.parents[1] / "examples" / "dgx-h100.json").read_bytes()
    (machine,) = inspect_capture(data, "examples/dgx-h100.json")
    return node_svg(machine, node_findings(machine))


def placement_picture() -> str:
    """The picture of an order on the made-up network in examples/, beside that of host names."""
    path = REFERENCE.parents[1] / "examples" / "fabric" / "topology.conf"
    (topology,) = read_fabric(path.read_bytes(), "topology.conf")
    question = PlaceQuestion(
        nodes=nodes_of("gpu-[9-12,36-39,71-77,101-108,113-121]"),
        ranks_per_node=8,
        sizes=parse_mesh("tensor=8,data=4,pipeline=8"),
        volumes=parse_volumes("data=4e9,pipeline=2e8"),
        version=SlurmVersion.of("24.11"),
        oversubscription=4,
    )
    return placement_svg(question, topology, place_on(question, topology), None)


def _model_classes(cls: type) -> Iterator[type]:
    yield cls
    for hint in typing.get_type_hints(cls).values():
        for one in _parts_of(hint):
            if _is_record(one):
                yield from _model_classes(one)


def _is_record(hint: Any) -> bool:
    """Whether it is one of our own classes with fields."""
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return is_struct or dataclasses.is_dataclass(hint)


def _parts_of(hint: Any) -> Iterator[Any]:
    """The types inside a hint: those of a tuple's items, of a union, of a new type."""
    arguments = typing.get_args(hint)
    if not arguments:
        yield getattr(hint, "__supertype__", hint)
    for one in arguments:
        if one is not types.NoneType and one is not Ellipsis:
            yield from _parts_of(one)


def _model_words(hint: Any) -> str:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        words = [_model_words(one) for one in typing.get_args(hint) if one is not types.NoneType]
        return f"{' or '.join(words)}, or `null`"
    if typing.get_origin(hint) is tuple:
        return f"list of {_model_words(typing.get_args(hint)[0])}"
    if _is_record(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return _type_words(getattr(hint, "__supertype__", hint))


# --- command line --------------------------------------------------------------------------------


def cli_page() -> str:
    """The reference of the command line: each command's words and options."""
    # With its settings: click keeps the first help option that a command is asked for.
    root = click.Context(cli, info_name="hpckit", **cli.context_settings)
    parts = [
        f"{_NOTE}\n# Command line\n\n{cli.help}\n\n",
        _table(
            ("command", "does"), [(f"[`{name}`](#{name})", COMMANDS[name]) for name in COMMANDS]
        ),
        "\nEvery command takes `-h` or `--help`; `hpckit --version` prints the version. The\n"
        "result goes to stdout, talk to stderr: [exit codes](exit-codes.md) and [JSON](json.md).\n",
    ]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        if command is not None:
            parts += _command_parts(command, root, name, "##")
    return "".join(parts)


def _command_parts(
    command: click.Command, parent: click.Context, name: str, level: str
) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    heading = name if level == "##" else f"{parent.info_name} {name}"
    yield f"\n{level} {heading}\n\n```\n{usage}\n```\n\n{_unwrapped(command.help or '')}\n"
    rows = [
        (_option_words(one), _option_meaning(one))
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden
    ]
    if rows:
        yield f"\n{_table(('option', 'meaning'), rows)}"
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(context):
            inner = command.get_command(context, inner_name)
            if inner is not None:
                yield from _command_parts(inner, context, inner_name, "###")


def _unwrapped(text: str) -> str:
    """Help as paragraphs, each on one line; what click keeps as it is is a block."""
    return "\n\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    if not text.startswith("\b\n"):
        return " ".join(text.split())
    kept = inspect.cleandoc(text.removeprefix("\b\n"))
    return f"```\n{kept}\n```"


def _option_words(option: click.Option) -> str:
    spelled = ", ".join(f"`{word}`" for word in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return spelled
    if isinstance(option.type, click.Choice):
        return f"{spelled} one of {', '.join(f'`{word}`' for word in option.type.choices)}"
    return f"{spelled} `{option.metavar or option.type.name.split()[0].upper()}`"


def _option_meaning(option: click.Option) -> str:
    notes = []
    if option.multiple:
        notes.append("May be given several times.")
    if option.show_default:
        default = option.default if option.show_default is True else option.show_default
        notes.append(f"Default: `{default}`.")
    if option.envvar is not None:
        notes.append(f"Also from `${option.envvar}`.")
    return " ".join([option.help or "", *notes])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
