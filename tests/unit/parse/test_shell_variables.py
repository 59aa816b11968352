from __future__ import annotations

import pytest

from hpckit.model.comm_lint import Assignment, LostValue, SettingForm
from hpckit.parse.shell_script import parse_shell


def found(text: str) -> tuple[Assignment, ...]:
    """The assignments to A in a script."""
    return tuple(one for one in parse_shell(text, "job.sh").assignments if one.name == "A")


@pytest.mark.parametrize(
    "between",
    [
        "T=$(./bench)",
        "T=`./bench`",
        'echo "ring $(./bench)"',
        "export T=$(( $(./bench) + 1 ))",
        "read T < <(./bench)",
        "echo <(./bench) >(./bench)",
        "source ./bench.sh",
        ". ./bench.sh",
    ],
)
def test_what_a_command_in_a_word_sees_is_not_lost(between: str) -> None:
    """A value that a command inside a word, or a script that is read in, may see is kept."""
    one, two = found(f"export A=1\n{between}\nexport A=2\n")
    assert (one.value, one.until_line, two.value, two.instead_of) == ("1", 3, "2", None)


@pytest.mark.parametrize("between", ["T='$(./bench)'", "T=$((1 << 2))", 'echo "$T"', ": \\`"])
def test_a_word_that_runs_nothing_sees_no_value(between: str) -> None:
    """A text, a sum and a variable run no command, so the value before them never counts."""
    (one,) = found(f"export A=1\n{between}\nexport A=2\n")
    assert one.instead_of == LostValue(value="1", line=1)


@pytest.mark.parametrize(
    "line",
    ["export A=${A:-2}", "A=${A-2}", 'export "A=${A:=2}"', ': "${A:=2}"', "declare A=${A:-2}"],
)
@pytest.mark.parametrize("between", ["", "./bench\n"])
def test_a_fallback_leaves_the_value_that_stands(line: str, between: str) -> None:
    """`${A:-b}` sets nothing where the script has set A before."""
    (one,) = found(f"export A=1\n{between}{line}\n./train\n")
    assert (one.value, one.line, one.until_line, one.instead_of) == ("1", 1, None, None)
    assert one.form is SettingForm.EXPORT


def test_what_is_read_only_is_not_exported() -> None:
    """`readonly A=b` sets a variable of the shell, unless A is exported already."""
    assert [one.form for one in found("readonly A=1\n")] == [SettingForm.SHELL]
    assert [one.form for one in found("export A\nreadonly A=1\n")] == [SettingForm.EXPORT]


def test_a_fallback_of_what_is_not_known() -> None:
    """A value that the shell computes stays unknown behind its fallback."""
    assert [one.value for one in found("export A=$B\nexport A=${A:-2}\n")] == [None]


def test_a_fallback_exports_what_stands() -> None:
    """`export A=${A:-b}` exports a variable of the shell with the value that it has."""
    (one,) = found("A=1\nexport A=${A:-2}\n")
    assert (one.value, one.form) == ("1", SettingForm.EXPORT)
    assert [one.value for one in found("A=1\nA=${A:-2} ./train\n")] == ["1", "1"]


def test_a_fallback_takes_the_place_of_what_is_empty_or_unset() -> None:
    """`${A:-b}` is b where A is empty, unset or set nowhere before."""
    assert [one.value for one in found("export A=\nexport A=${A:-2}\n")] == ["2"]
    assert [one.value for one in found("export A=1\nunset A\nexport A=${A:-2}\n")] == ["2"]
    assert [one.value for one in found("export A=${A:-2}\n")] == ["2"]
