"""A job file's text becomes a prepared job, as the command line does it, without a process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from hpckit.account.advice.outcome import AdvisedJob
from hpckit.core.document import Tree
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.prepare import PreparedJob, prepare
from hpckit.jobs.source import JobSource
from hpckit.script.launchers.registry import LAUNCHERS, Launchers

RESOURCES = FileResources([packaged_data()])


class _Compiled(jinja2.BytecodeCache):
    """Templates compiled once for all tests of a process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take the bytecode where this template was compiled before."""
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the bytecode."""
        self._kept[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


def prepared(
    text: str | None = None,
    *,
    site: str | None = "docker",
    options: Mapping[str, object] | None = None,
    command: tuple[str, ...] = (),
    resources: FileResources = RESOURCES,
    template: str | None = None,
    advised: AdvisedJob | None = None,
    option_words: Sequence[str] = (),
    launchers: Launchers = LAUNCHERS,
) -> PreparedJob:
    """The job of a file's `text` without its schema line, with `options` (dotted keys) over it."""
    source = JobSource(
        file_text=None if text is None else f'schema = "hpckit.job/1"\n{text}',
        file_name="job.toml",
        options={key: (value, f"--set {key}") for key, value in (options or {}).items()},
        option_words=tuple(option_words),
        command=command,
        site_name=site,
        template=template,
        folder=Path("jobs"),
        advised=advised,
    )
    return prepare(source, resources, _COMPILED, launchers)


def script_of(text: str, *, site: str | None = "docker") -> str:
    """The script of a job file's text at a site."""
    return prepared(text, site=site).script.text


def toml(tree: Tree) -> str:
    """A tree as TOML text, every character outside printable ASCII escaped."""
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in tree.items())


def _key(name: object) -> str:
    return _value(str(name))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(map(_character, value)) + '"'
    return json.dumps(value)


def _character(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char <= "~" else f"\\U{ord(char):08X}"
