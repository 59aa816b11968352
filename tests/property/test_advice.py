"""What holds of all advice and all patches."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpckit.account.advice.advice import advise, patched, with_advice
from hpckit.account.values import Advice
from hpckit.core.units import format_slurm_time, parse_slurm_mem_bytes, parse_slurm_time_s
from tests.fakes.measured_jobs import GIB, incarnation, job, node, report

_NAMES = st.sampled_from(["nodes", "gpus_per_node", "cpus_per_task", "mem", "time_limit"])
_SPACE = st.sampled_from(["", " ", "  ", "\t"])
_COMMENT = st.sampled_from(["", "# a comment", '  # time_limit = "1"', "# [resources]"])


@st.composite
def job_files(draw: st.DrawFn) -> str:
    """Job files in many spellings, with comments and blank lines between."""
    lines = ['schema = "hpckit.job/1"', 'name = "n"', 'command = ["true"]']
    numbers = {"nodes": "2", "gpus_per_node": "4", "cpus_per_task": "8"}
    texts = {"mem": '"64G"', "time_limit": "'8:00:00'"}
    keys = draw(st.lists(_NAMES, unique=True))
    form = draw(st.sampled_from(["table", "dotted", "inline"]))
    said = [f"{key}{draw(_SPACE)}={draw(_SPACE)}{(numbers | texts)[key]}" for key in keys]
    if form == "inline":
        lines.append(f"resources = {{ {', '.join(said)} }}{draw(_COMMENT)}")
    elif form == "dotted":
        lines += [f"resources.{one} {draw(_COMMENT)}" for one in said]
    lines.append("[slurm]" + draw(_COMMENT))
    lines.append('account = "a"')
    if form == "table":
        lines.append(f"[resources]{draw(_COMMENT)}")
        lines += [f"{draw(_SPACE)}{one} {draw(_COMMENT)}" for one in said]
    lines += draw(st.lists(_COMMENT, max_size=2))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


_ADVICE = st.lists(
    st.sampled_from(
        [
            Advice(key="resources.nodes", now="2", proposed="1", because=""),
            Advice(key="resources.cpus_per_task", now="8", proposed="3", because=""),
            Advice(key="resources.time_limit", now="8:00:00", proposed="02:00:00", because=""),
            Advice(key="resources.mem", now="64G", proposed="7G", because=""),
        ]
    ),
    unique_by=lambda one: one.key,
)


@given(job_files(), _ADVICE)
def test_a_patch_says_the_advice_and_keeps_the_rest(text: str, advice: list[Advice]) -> None:
    """The new text reads as the old with the advised values, and other lines are as they were."""
    changed = patched(advice, text)
    assert changed is not None
    wanted = tomllib.loads(text)
    for one in advice:
        value = one.proposed if one.key.endswith(("mem", "limit")) else int(one.proposed)
        wanted.setdefault("resources", {})[one.key.partition(".")[2]] = value
    assert tomllib.loads(changed) == wanted
    before, after = text.splitlines(), changed.splitlines()
    comments = [line.partition("#")[2] for line in before if "#" in line]
    assert [line.partition("#")[2] for line in after if "#" in line] == comments
    kept = [line for line in before if "resources" not in line and "=" not in line]
    assert [line for line in after if line in kept and line] == [line for line in kept if line]


@given(job_files(), _ADVICE)
def test_a_patch_applied_twice_is_applied_once(text: str, advice: list[Advice]) -> None:
    """The second time nothing changes, to the byte."""
    once = patched(advice, text)
    assert once is not None
    assert patched(advice, once) == once


@given(
    elapsed_s=st.floats(1, 10 * 86400),
    lost_s=st.floats(0, 86400),
    limit_s=st.integers(60, 30 * 86400),
    peak=st.integers(1, 512 * GIB),
    asked_gib=st.integers(1, 1024),
    busy=st.floats(0, 64),
    cpus=st.integers(1, 128),
    ranks=st.integers(1, 8),
)
def test_nothing_below_the_measured_use_is_advised(
    *,
    elapsed_s: float,
    lost_s: float,
    limit_s: int,
    peak: int,
    asked_gib: int,
    busy: float,
    cpus: int,
    ranks: int,
) -> None:
    """Time, memory and CPUs that are advised hold what the run took, and taken once are enough."""
    measured = report(
        elapsed_s=elapsed_s,
        incarnations=(incarnation(0, lost_s, is_lost=True), incarnation(1, elapsed_s)),
        nodes=(node(elapsed_s=elapsed_s, mem_kernel_peak_bytes=peak, cpus_enough=busy, cpus=cpus),),
    )
    measured = replace(measured, nodes=tuple(replace(one, restart=1) for one in measured.nodes))
    spec = job(
        ntasks_per_node=ranks,
        cpus_per_task=cpus,
        mem=f"{asked_gib}G",
        time_limit=format_slurm_time(limit_s),
    )
    advice = advise(measured, spec)
    said = {one.key: one.proposed for one in advice}
    if "resources.time_limit" in said:
        assert elapsed_s + lost_s < parse_slurm_time_s(said["resources.time_limit"]) < limit_s
    if "resources.mem" in said:
        assert peak < parse_slurm_mem_bytes(said["resources.mem"]) < asked_gib * GIB
    if "resources.cpus_per_task" in said:
        assert busy / ranks <= int(said["resources.cpus_per_task"]) < cpus
    taken = with_advice(spec, advice)
    if (later := advise(measured, taken)) != ():
        # The time limit had to wait for a run on fewer CPUs.
        assert "resources.cpus_per_task" in said
        assert [one.key for one in later] == ["resources.time_limit"]
        assert advise(measured, with_advice(taken, later)) == ()
