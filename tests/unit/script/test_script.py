"""Templates: what a wrong one says, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hpckit.core.errors import RenderError
from hpckit.core.files import packaged_data
from hpckit.script.plan import Provenance
from hpckit.script.render import render_script
from tests.fakes.prepared import prepared

PLAN = prepared('name = "x"\ncommand = ["x", "a b"]').plan
PACKAGED = {
    path.relative_to(packaged_data() / "templates").as_posix(): path.read_text(encoding="utf-8")
    for path in Path(packaged_data() / "templates").rglob("*.j2")
}
PROVENANCE = Provenance(
    version="1",
    site="here",
    job_digest="d" * 64,
    template="t.j2",
    template_digest="e" * 64,
    reproduce=("hpckit", "render", "a\nb"),
)


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
        ("{% extends 'missing.j2' %}", "missing.j2: there is no such template"),
        ("{% include 'missing.j2' %}", "missing.j2: there is no such template"),
        ("{{ plan.name | shline }}", "expected a list of words"),
        ("{{ 'a\\0b' | sh }}", "NUL"),
        ("{{ 'a\\nb' | directive }}", "expected printable text on one line"),
        (
            "true\n#SBATCH --nodes=2\n",
            "line 2 of the script is a directive after the first command",
        ),
        ("{% extends 'base.sbatch.j2' %}{% block sampler %}x{% endblock %}", "no block sampler"),
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
    with pytest.raises(RenderError, match=r"t\.j2: there is no such template"):
        render_script(PLAN, PROVENANCE, {})


def test_a_template_that_nothing_includes_any_more() -> None:
    """A file of a former release that would be left out in silence is refused."""
    with pytest.raises(RenderError, match="no script includes this any more"):
        rendered("x", {"launch/mpi.srun.j2": ""})


def test_a_block_is_replaced() -> None:
    """A template of one's own replaces one block, and the script says that it is not hpckit's."""
    text = rendered(
        '{% extends "base.sbatch.j2" %}{% block rendezvous %}\necho here\n{% endblock %}'
    )
    assert "\necho here\n" in text
    assert "# this template is not hpckit's own: sha256 eeeeeeeeeeee\n" in text
    assert "srun " in text


def test_every_line_of_the_head_is_a_comment() -> None:
    """Nothing in the provenance can begin a line of its own."""
    text = rendered('{% extends "base.sbatch.j2" %}')
    head = text[: text.index("hpckit_fail")]
    assert all(line.startswith("#") for line in head.strip().split("\n"))
    assert r"render $'a\nb'" in head


def test_the_end_is_one_newline() -> None:
    """A script ends in one newline, and Windows line ends become newlines."""
    assert rendered("true\r\nfalse\r\n\r\n\n") == "true\nfalse\n"


def test_the_digest_and_the_templates_used() -> None:
    """The script knows its digest and which templates went into it."""
    script = render_script(PLAN, PROVENANCE, {**PACKAGED, "t.j2": '{% extends "base.sbatch.j2" %}'})
    assert len(script.sha256) == 64
    assert set(script.templates) == {"t.j2", "base.sbatch.j2"}


def test_a_reason_stands_beside_its_line() -> None:
    """A reason becomes a comment at one column, on the same line."""
    text = rendered('{{ "export A=1" | reason("b\\nc") }}|{{ "x" | reason(none) }}|')
    assert text == f"{'export A=1':<40} # b?c|x|\n"
