"""sacct --json: any JSON gives details or a ParseError."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.slurm.sacct import parse_sacct_json
from hpckit.slurm.values import JobDetail

KEYS = [
    *("jobs", "job_id", "state", "current", "reason", "array", "task", "task_id", "het", "time"),
    *("job_offset", "start", "end", "exit_code", "return_code", "signal", "id", "signal_id", "set"),
    *("number", "nodes", "range", "submit_line", "restart_cnt", "tres", "allocated", "type"),
    *("name", "count", "steps", "step"),
]
WORDS = ["FAILED", "CANCELLED by 1", "None assigned", "0x24", "0xx", "4-7%2", "7.batch", "mem"]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 7, 125, 998, 0xFFFFFFFE, 2**64 - 2])
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=3)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)
numbers = st.integers(0, 2**40) | st.fixed_dictionaries(
    {"set": st.booleans(), "number": st.integers(-1, 300)}
)
states = st.sampled_from(WORDS) | st.lists(st.sampled_from(WORDS), max_size=3)
exits = st.fixed_dictionaries(
    {}, optional={"return_code": numbers, "signal": st.fixed_dictionaries({"id": numbers})}
)
times = st.fixed_dictionaries({}, optional={"start": numbers, "end": numbers})
jobs = st.fixed_dictionaries(
    {"job_id": st.integers(0, 2**40), "state": st.fixed_dictionaries({"current": states})},
    optional={
        "array": st.fixed_dictionaries({"job_id": numbers, "task": st.sampled_from(WORDS)}),
        "het": st.fixed_dictionaries({"job_id": numbers, "job_offset": numbers}),
        "time": times,
        "exit_code": exits,
        "nodes": st.sampled_from(WORDS),
        "restart_cnt": numbers,
        "tres": st.fixed_dictionaries(
            {"allocated": st.lists(st.fixed_dictionaries({"type": st.text(), "count": numbers}))}
        ),
        "steps": st.lists(
            st.fixed_dictionaries(
                {"step": st.fixed_dictionaries({"id": numbers | st.text()}), "state": states},
                optional={"time": times, "exit_code": exits},
            ),
            max_size=2,
        ),
    },
)


def check(text: str) -> None:
    """Details, or a ParseError of this tool."""
    try:
        details = parse_sacct_json(text)
    except ParseError as error:
        assert error.tool == "sacct --json"
    else:
        assert all(isinstance(detail, JobDetail) for detail in details)


@given(values)
@example({"jobs": [{"job_id": 7, "state": {"current": "FAILED"}, "time": {"start": 1e300}}]})
def test_any_json_gives_details_or_a_parse_error(value: object) -> None:
    """No JSON is a surprise to the parser."""
    check(json.dumps(value))


@given(st.lists(jobs, max_size=2), values)
def test_a_job_of_any_kind(listed: list[object], more: object) -> None:
    """No job that is nearly Slurm's is a surprise, whatever else is in the answer."""
    check(json.dumps({"jobs": listed, "meta": more}))


@given(st.text())
def test_any_text(text: str) -> None:
    """No text is a surprise, that of half an answer included."""
    check(text)
    check('{"jobs": [' + text)
