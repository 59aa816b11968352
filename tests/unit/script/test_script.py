"""Templates and the lines of the communication block."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import RenderError
from hpckit.core.files import packaged_data
from hpckit.jobs.sites import PACKAGED_PREFIX
from hpckit.script.plan import Provenance
from hpckit.script.render import (
    export_line,
    export_lines,
    left_line,
    render_script,
    source_line,
    source_lines,
)
from hpckit.spec.platform import CommLeft, CommProfile, CommSetting, SettingOrigin
from tests.fakes.prepared import prepared

PLAN = prepared('name = "x"\ncommand = ["x", "a b"]').plan
PACKAGED = {
    path.relative_to(packaged_data() / "templates").as_posix(): path.read_text(encoding="utf-8")
    for path in Path(packaged_data() / "templates").rglob("*.j2")
}
PACKAGED |= {f"{PACKAGED_PREFIX}{name}": text for name, text in PACKAGED.items()}
PROVENANCE = Provenance(
    version="1",
    site="here",
    job_digest="d" * 64,
    template="t.j2",
    template_digest="e" * 64,
    reproduce=("hpckit", "render", "a\nb"),
)
WHOSE = "# custom template (not hpckit's): sha256 eeeeeeeeeeee\n"


def rendered(template: str, others: Mapping[str, str] = PACKAGED) -> str:
    """The script of one template."""
    return render_script(PLAN, PROVENANCE, {**others, "t.j2": template}).text


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ plan.nothing }}", "nothing"),
        ("{{ plan.name | nothing }}", "nothing"),
        ("\n{% if %}", "t.j2 line 2"),
        ("{% extends 'missing.j2' %}", "missing.j2: no such template"),
        ("{% include 'missing.j2' %}", "missing.j2: no such template"),
        (
            "{% extends 'base.sbatch.j2' %}{% block lunch %}{% endblock %}",
            "no block lunch; its blocks: agent",
        ),
        ("{{ plan.name | shline }}", "expected a list of words"),
        ("{{ 'a\\0b' | sh }}", "NUL"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{% include 't.j2' %}", "RecursionError"),
        ("{{ '\\ud800' }}", "surrogates not allowed"),
        ("{{ 'a\\nb' | directive }}", "expected printable text on one line"),
        (
            "true\n#SBATCH --nodes=2\n",
            "line 2 of the script: sbatch ignores directives after the first command",
        ),
        ("#SBATCH --a\n\n# x\n  true\n# y\n#SBATCH --b\n", "line 6"),
    ],
)
def test_a_wrong_template(template: str, says: str) -> None:
    """What cannot become a script is a RenderError that names the template and the trouble."""
    with pytest.raises(RenderError) as caught:
        rendered(template)
    assert says in str(caught.value)
    assert caught.value.exit_code == 6


def test_a_missing_template() -> None:
    """A template that is not there is named."""
    with pytest.raises(RenderError, match=r"t\.j2: no such template"):
        render_script(PLAN, PROVENANCE, {})


def test_every_line_of_the_head_is_a_comment() -> None:
    """Nothing in the provenance can begin a line of its own."""
    text = rendered('{% extends "base.sbatch.j2" %}')
    head = text[: text.index("hpckit_fail")]
    assert all(line.startswith("#") for line in head.strip().split("\n"))
    assert r"render $'a\nb'" in head


def test_what_may_be_missing_may_be_missing() -> None:
    """`ignore missing` asks for a template that need not be there, and is no template used."""
    base = "{% extends 'base.sbatch.j2' %}"
    block = "{% block epilogue %}{% include 'x' ignore missing %}{% endblock %}"
    assert rendered(base + block) == rendered(base)


def test_the_end_is_one_newline() -> None:
    """A script ends in one newline, and Windows line ends become newlines."""
    assert rendered("true\r\nfalse\r\n\r\n\n") == f"true\n{WHOSE}false\n"


def test_no_template_can_leave_out_whose_it_is() -> None:
    """The line is put below the first one, whatever the template has there."""
    assert rendered("#!/bin/bash\n{% if false %}x{% endif %}true") == f"#!/bin/bash\n{WHOSE}true\n"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ plan.__init__.__globals__ }}",
        "{% set _ = plan.directives.append(1) %}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    ],
)
def test_a_template_runs_no_python(template: str) -> None:
    """What leads out of the sandbox is refused, or is nothing."""
    with pytest.raises(RenderError):
        rendered(template)


def test_the_digest_and_the_templates_used() -> None:
    """The script knows its digest and which templates went into it."""
    script = render_script(PLAN, PROVENANCE, {**PACKAGED, "t.j2": '{% extends "base.sbatch.j2" %}'})
    assert len(script.sha256) == 64
    assert {"t.j2", "base.sbatch.j2"} <= set(script.templates)


def test_a_reason_stands_beside_its_line() -> None:
    """A reason becomes a comment at one column, on the same line."""
    text = rendered('{{ "export A=1" | reason("b\\nc") }}|{{ "x" | reason(none) }}|')
    assert text == f"{'export A=1':<40} # b?c|x|\n{WHOSE}"


SETTING = CommSetting(
    name="NCCL_IB_HCA", value="=mlx5_0,mlx5_1", because="exact", source="a page",
    origin=SettingOrigin.RULE, rule="ib", date="2026-11",
)  # fmt: skip


def read_back(line: str, environment: dict[str, str] | None = None) -> str:
    """What bash makes of the variable."""
    script = f'{line}\nprintf %s "$NCCL_IB_HCA"'
    done = subprocess.run(
        ["bash", "-c", script], env=environment or {}, capture_output=True, check=True, text=True
    )
    return done.stdout


@pytest.mark.parametrize("value", ["=mlx5_0,mlx5_1", "^docker,lo", "AWS Libfabric", "a'b", "", "="])
def test_a_value_is_read_back_exactly(value: str) -> None:
    """Bash exports exactly the value, whatever is in it."""
    assert read_back(export_line(replace(SETTING, value=value))) == value


def test_reason_and_rule_stand_beside_the_export() -> None:
    """A reader sees why, and by which rule."""
    assert export_line(SETTING).endswith("# exact [ib]")


def test_neighbours_with_one_reason_share_a_line() -> None:
    """A reason stands once, and every rule is named; the user's own and long ones stand alone."""
    other = replace(SETTING, name="NCCL_NET", value="IB", rule="net")
    (line,) = export_lines([SETTING, other])
    assert line.endswith("NCCL_NET=IB # exact [ib, net]")
    assert read_back(line) == SETTING.value
    for alone in (
        replace(other, because="else"),
        replace(other, yields=True),
        replace(other, value="x" * 90),
        replace(other, origin=SettingOrigin.JOB),
    ):
        assert len(list(export_lines([SETTING, alone]))) == 2


def test_a_warning_stands_beside_the_user_s_value() -> None:
    """What speaks against a user's value is in its line."""
    own = replace(SETTING, origin=SettingOrigin.JOB, warning="hpckit would set x")
    assert export_line(own).endswith("# exact; hpckit would set x")


def test_the_shell_s_own_value_comes_first_where_it_is_let_through() -> None:
    """A setting that yields leaves what is there, and sets what is not."""
    line = export_line(replace(SETTING, yields=True))
    assert read_back(line, {"NCCL_IB_HCA": "mine"}) == "mine"
    assert read_back(line) == "=mlx5_0,mlx5_1"


def test_a_job_s_id_is_expanded() -> None:
    """`${SLURM_JOB_ID}` in an expanded value is the job's."""
    line = export_line(replace(SETTING, value="/run/x-${SLURM_JOB_ID}", is_expanded=True))
    assert read_back(line, {"SLURM_JOB_ID": "7"}) == "/run/x-7"


@pytest.mark.parametrize("value", ["$(date)${SLURM_JOB_ID}", '"${SLURM_JOB_ID}', "/run"])
def test_nothing_else_is_expanded(value: str) -> None:
    """An expanded value holds the job's id and plain characters alone."""
    with pytest.raises(RenderError):
        export_line(replace(SETTING, value=value, is_expanded=True))


def test_a_source_names_its_rules_once() -> None:
    """Two variables of one rule and document make one line."""
    lines = list(source_lines([SETTING, replace(SETTING, name="NCCL_NET")]))
    assert lines == ["[ib] a page (2026-11)"]


def test_what_is_left_says_why() -> None:
    """A variable that is not set names who has it, and what would be set."""
    left = CommLeft(name="NCCL_NET", value="x y", because="the job has it", rule="r")
    assert left_line(left) == "NCCL_NET is not set: the job has it; hpckit would set x y [r]"


def test_a_provider_s_file_gets_its_variables() -> None:
    """The file is sourced with what it needs to find, quoted."""
    profile = CommProfile(path="/a/b.sh", because="", source="", environment=(("D", "/x y"),))
    assert source_line(profile) == "D='/x y' source /a/b.sh"
