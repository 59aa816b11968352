from __future__ import annotations

import pytest

from hpckit.parse.shell_script import parse_shell


def pairs(text: str) -> list[tuple[int, str, str | None]]:
    """Line, name and value of each assignment."""
    return [(one.line, one.name, one.value) for one in parse_shell(text, "job.sh").assignments]


@pytest.mark.parametrize(
    "line",
    [
        '((("$N" << 1) > 2)) && export A=1',
        "(((1<<3)+1)) && export A=1",
        'if (("$N" > 1)); then export A=1; fi\necho "a $((2))"\n((X=1<<2))\n',
    ],
)
def test_a_sum_is_read_from_its_first_character(line: str) -> None:
    """A quote or a bracket may stand right behind `((`."""
    assert pairs(line) == [(1, "A", "1")]


@pytest.mark.parametrize(
    "inner",
    [
        "for i in 0 1; do echo $((1 << i)); done | paste -sd,",
        "((N = (1 + (2 << 3)))); echo $N",
        "for ((i=0; i<1<<2; i++)); do date; done",
        "((a); b # it's\n) | c",
        "echo $((16#f)) $((1 << $(cat <<EOF\n)\nEOF\n)))",
        "(# it's\ndate);# it's\ndate |# it's\ncat &# it's",
        "cat <<EOF\nit's )\nEOF",
        'echo $(date)#")"',
    ],
)
def test_sums_and_comments_in_a_substitution(inner: str) -> None:
    """Inside `$(…)` too a `<<` of a sum shifts bits, and a comment may begin behind a sign."""
    for word in (f"$(\n{inner}\n)", f'"$(\n{inner}\n)"', f"$( {inner}\n)"):
        assert pairs(f"B={word}\nexport A=1\n")[-1][1:] == ("A", "1")


def test_a_sum_in_backquotes() -> None:
    """The same between backquotes."""
    assert pairs('B="X=`echo $((1 << 4))\n`"\nexport A=1\n')[-1] == (3, "A", "1")
