"""The META block of a sample file: checked, and what this version does not know is kept."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from hpckit.errors import ParseError
from hpckit.model.samples import SAMPLES_SCHEMA
from hpckit.model.series import HostColumn, SampledGpu, SampleMeta
from hpckit.parse.excerpt import refusal

TOOL: Final = "sample file"

_META_KEYS: Final = set(SampleMeta.__struct_fields__) - {"rest"}
_GPU_KEYS: Final = set(SampledGpu.__struct_fields__)
_COLUMN_KEYS: Final = set(HostColumn.__struct_fields__)


def parse_meta(payload: bytes) -> SampleMeta:
    """What a META block says; unknown keys are in `rest`, those of GPU 3 as `gpus[3].key`.

    Raises ParseError for what is no JSON object, for another schema, and for wrong types.
    """
    text = payload.decode("utf-8", "replace")
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refuse(text, error.pos, error.msg, "a META block of JSON") from error
    except (RecursionError, ValueError) as error:
        raise _refuse(text, 0, f"not readable: {error}", "a META block of JSON") from None
    if not isinstance(tree, dict):
        raise _refuse(text, 0, f"got {type(tree).__name__}", "a JSON object")
    if tree.get("schema") != SAMPLES_SCHEMA:
        at = max(text.find('"schema"'), 0)
        raise _refuse(text, at, f"schema is {tree.get('schema')!r}", f'"{SAMPLES_SCHEMA}"')
    rest = _rest(tree)
    known = {key: value for key, value in tree.items() if key in _META_KEYS}
    try:
        return msgspec.convert(known | {"rest": rest}, SampleMeta)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _refuse(text, 0, str(error), "what docs/reference/account-files.md lists") from error


def _rest(tree: dict[str, Any]) -> dict[str, Any]:
    beside = {key: value for key, value in tree.items() if key not in _META_KEYS | {"schema"}}
    for name, keys in (("gpus", _GPU_KEYS), ("host_columns", _COLUMN_KEYS)):
        items = tree.get(name)
        for at, item in enumerate(items if isinstance(items, list) else ()):
            unknown = set(item) - keys if isinstance(item, dict) else set()
            beside |= {f"{name}[{at}].{key}": item[key] for key in sorted(unknown)}
    return beside


def _refuse(text: str, at: int, message: str, expected: str) -> ParseError:
    line_no = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].split("\n", 1)[0]
    return refusal(
        message, tool=TOOL, line_no=line_no, line=line, column=at - begin + 1, expected=expected
    )
