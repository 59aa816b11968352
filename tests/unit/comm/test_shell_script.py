from __future__ import annotations

from typing import Final

import pytest

from hpckit.comm.lint_rule import LostValue, Setting, SettingForm
from hpckit.comm.shell.script import parse_shell
from hpckit.core.errors import ParseError


def pairs(text: str) -> list[tuple[int, str, str | None]]:
    """Line, name and value of each assignment."""
    return [(one.line, one.name, one.value) for one in parse_shell(text, "job.sh").assignments]


def forms(text: str) -> list[tuple[str, SettingForm | None]]:
    """Name and form of each assignment."""
    return [(one.name, one.form) for one in parse_shell(text, "job.sh").assignments]


def ends(text: str) -> list[tuple[str, int, int | None]]:
    """Name, first and last line of each assignment."""
    found = parse_shell(text, "job.sh").assignments
    return [(one.name, one.line, one.until_line) for one in found]


def of_a(text: str) -> tuple[Setting, ...]:
    """The assignments to A in a script."""
    return tuple(one for one in parse_shell(text, "job.sh").assignments if one.name == "A")


def options(text: str) -> list[tuple[str | None, str, str | None, int]]:
    """Program, name, value and line of each option."""
    found = parse_shell(text, "job.sh").options
    return [(one.program, one.name[2:], one.value, one.line) for one in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("export A=b C=\"d e\" D='x y'", [("A", "b"), ("C", "d e"), ("D", "x y")]),
        ("export \"A=b c\" 'D=$e'", [("A", "b c"), ("D", "$e")]),
        ('export "A=${A:-b}" "C=$D"', [("A", "b"), ("C", None)]),
        ('declare -x "A=b"', [("A", "b")]),
        ('env "A=b" cmd', [("A", "b")]),
        ('"A=b" cmd', []),
        ("A=b cmd", [("A", "b")]),
        ("A=1 B=2 srun a", [("A", "1"), ("B", "2")]),
        ("env -u X A=b cmd C=d", [("A", "b")]),
        ('declare -x A="b"', [("A", "b")]),
        ("typeset -gx A=b", [("A", "b")]),
        ("setenv A 'b c'", [("A", "b c")]),
        ("setenv A", [("A", "")]),
        ("setenv 1A b", []),
        ("$X/export A=b", [("A", "b")]),
        ("${X}export A=b", []),
        ("export A=b -n A", [("A", "b")]),
        ("setenv A $B", [("A", None)]),
        ("declare -i A=1", [("A", "1")]),
        ("set -e; A=b", [("A", "b")]),
        ("export A=$(hostname)", [("A", None)]),
        ("export A=`hostname`", [("A", None)]),
        ('export A="x$B"', [("A", None)]),
        ("export A=$((1 << 3))", [("A", None)]),
        ("export A=${B:-c}", [("A", None)]),
        ("export A=${A:-c}", [("A", "c")]),
        ('export A="${A:-c}"', [("A", "c")]),
        (': "${A:=b}"', [("A", "b")]),
        (": ${A:-b}", []),
        ("A=(1 2 3)", [("A", None)]),
        ("export A=b\\ c", [("A", "b c")]),
        ('export A="b\\"c"', [("A", 'b"c')]),
        ("export A=$'b'", [("A", "b")]),
        ("export A=$'b\\n'", [("A", None)]),
        ("export A=5$", [("A", "5$")]),
        ("export A=x.$${ B=c", [("A", None), ("B", "c")]),
        ("export A=$(a $${ ) B=c", [("A", None), ("B", "c")]),
        ("export A=b#c # d", [("A", "b#c")]),
        ("# export A=b", []),
        ("echo A=b", []),
        ("echo 'export A=b'", []),
        ("make A=b", []),
        ("if true; then export A=b; fi", [("A", "b")]),
        ("for A in B=1 C=2; do :; done", []),
        ("[[ $A == b ]] && export C=d", [("C", "d")]),
        ("(export A=b; cmd)", [("A", "b")]),
        ("function f { export A=b; }", [("A", "b")]),
        ("function f() { export A=b; }", [("A", "b")]),
        ("export A=b >log 2>&1", [("A", "b")]),
        ("export A= B=c", [("A", ""), ("B", "c")]),
        ("cmd <<< A=b", []),
        ("export A=$(cmd <<< 'x)' < y)", [("A", None)]),
        ("export A=$(a '(' ) B=c", [("A", None), ("B", "c")]),
        ("export A=$((2 * (1 + 1))) B=c", [("A", None), ("B", "c")]),
        ('export A="b\\\nc"', [("A", "bc")]),
        ('export A="$(echo \'b"c\')" D=e', [("A", None), ("D", "e")]),
        ("diff <(A=b cmd) x", []),
    ],
)
def test_assignments_of_a_line(line: str, expected: list[tuple[str, str | None]]) -> None:
    """A line of shell sets these variables."""
    assert [(name, value) for _, name, value in pairs(line)] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("srun --export=ALL,A=1,B=2 -n 8 cmd", [("A", "1"), ("B", "2")]),
        ("srun --export ALL,A=1 cmd", [("A", "1")]),
        ("srun -n 8 env A=b cmd", [("A", "b")]),
        ("srun -n 8 exec env A=b cmd", [("A", "b")]),
        ("srun " * 20 + "env A=b cmd", []),
        ("srun --mpi=pmix -l cmd --export=A=1", []),
        ("mpirun -np 4 -x A=b -x C cmd", [("A", "b")]),
        ("mpiexec -genv A b -env C $D cmd", [("A", "b"), ("C", None)]),
        ("mpirun --mca btl ^openib cmd", [("OMPI_MCA_btl", "^openib")]),
        ("docker run -e A=b --env=C=d image", [("A", "b"), ("C", "d")]),
        ("apptainer exec --env A=b,C=d image cmd", [("A", "b"), ("C", "d")]),
        ("docker run -e A=b,C image cmd", [("A", "b,C")]),
        ("srun shifter --env=A=b cmd", [("A", "b")]),
        ("timeout 60 srun --export=ALL,A=b cmd", [("A", "b")]),
        ("srun -q debug -W 30 --export=ALL,A=b cmd", [("A", "b")]),
        ("sbatch -W --export=ALL,A=b job.sh", [("A", "b")]),
        ("sbatch --wait --export=ALL,A=b job.sh", [("A", "b")]),
        ("srun --wait 30 --export=ALL,A=b cmd", [("A", "b")]),
        ("srun --wait bash -c 'A=b cmd'", [("A", "b")]),
        ("srun --x11 bash -c 'A=b cmd'", [("A", "b")]),
        ("srun --flag --export=ALL,A=b cmd", [("A", "b")]),
        ("srun --no-container-remap-root --container-mount-home env A=b cmd", [("A", "b")]),
        ('srun $OPTS "${MORE[@]}" --export=ALL,A=b cmd', [("A", "b")]),
        ('srun "${MORE[@]}" env A=b cmd', [("A", "b")]),
        ("time -p A=b cmd", [("A", "b")]),
        ("srun numactl -N 0 env A=b cmd", [("A", "b")]),
        ("mpirun -np 8 -x A=b env C=d cmd", [("A", "b"), ("C", "d")]),
        ("docker run image bash -c 'export A=b; cmd'", [("A", "b")]),
        ("srun bash -lc 'A=b cmd'", [("A", "b")]),
        ("bash -e -c 'A=b cmd' x", [("A", "b")]),
        ("bash -c", []),
        ("bash job.sh -c 'A=b cmd'", []),
        ('bash job.sh -c "it\'s"', []),
        ('srun bash job.sh -desc "it\'s a test"', []),
        ("bash -euo pipefail +O extglob --rcfile x -c 'A=b cmd'", [("A", "b")]),
        ("bash -c -- 'A=b cmd' 'C=d cmd'", [("A", "b")]),
        ('srun sh -c "export A=\\"b c\\" D=$E"', [("A", "b c"), ("D", None)]),
        ("srun bash -c 'A='\"b\"' cmd'", [("A", "b")]),
        ("sbatch -N 2 --wrap='export A=b; cmd'", [("A", "b")]),
        ('sbatch --wrap "A=b cmd"', [("A", "b")]),
        ("eval export A=b", [("A", "b")]),
        ("eval 'export A=b'; cmd", [("A", "b")]),
        ('eval "export A=b; $X \'c"', [("A", "b")]),
    ],
)
def test_what_launchers_set(line: str, expected: list[tuple[str, str | None]]) -> None:
    """An option of a launcher sets these variables for the ranks."""
    assert [(name, value) for _, name, value in pairs(line)] == expected


def test_forms_of_setting() -> None:
    """Each variable is set for the shell, for all commands, or for one command or launcher."""
    text = (
        "A=1\nexport B=2\nC=3 cmd\nsrun --export=ALL,D=4 cmd\nset -a\nE=5\nset +o allexport\nF=6\n"
    )
    assert forms(text) == [
        ("A", SettingForm.SHELL),
        ("B", SettingForm.EXPORT),
        ("C", SettingForm.PREFIX),
        ("D", SettingForm.OPTION),
        ("E", SettingForm.EXPORT),
        ("F", SettingForm.SHELL),
    ]


EXPORTS = (
    ("A=1\nexport A\n", SettingForm.EXPORT),
    ("export A\nA=1\n", SettingForm.EXPORT),
    ("export A\nunset A\nA=1\n", SettingForm.SHELL),
    ("A=1\nfor one in A; do export $one; done\n", SettingForm.EXPORT),
    ("for one in A; do export $one; done\nA=1\n", SettingForm.SHELL),
    ("readonly A=1\n", SettingForm.SHELL),
    ("export A\nreadonly A=1\n", SettingForm.EXPORT),
    ("A=1\nexport A=${A:-2}\n", SettingForm.EXPORT),
    ("export APPTAINERENV_A=1\n", SettingForm.OPTION),
    ("export SINGULARITYENV_A=1\n", SettingForm.OPTION),
    ("SINGULARITYENV_A=1\n", SettingForm.SHELL),
)


@pytest.mark.parametrize(("text", "form"), EXPORTS)
def test_whether_a_variable_is_exported(text: str, form: SettingForm) -> None:
    """A name alone exports too; what is exported for a container is a variable inside it."""
    assert forms(text) == [("A", form)]


SCRIPTS = {
    "array of options": (
        'ARGS=(\n  -x A=1 # b\n  --mca btl "^openib"\n)\nmpirun "${ARGS[@]}" cmd\n',
        [(1, "ARGS", None), (2, "A", "1"), (3, "OMPI_MCA_btl", "^openib")],
    ),
    "declared array": (
        "declare -a ARGS=(--export=ALL,B=2 -e C=$D)\n",
        [(1, "B", "2"), (1, "C", None), (1, "ARGS", None)],
    ),
    "no array": ("a $(b=(c) 'd=(e')\n", []),
    "text of options": (
        "ARGS=\" -x A=1 \\\n  --export=ALL,B=$C\"\nARGS+=' -x D=2'\nLIBS='-L it\"s'\n",
        [(1, "A", "1"), (3, "D", "2"), (3, "ARGS", None), (4, "LIBS", '-L it"s')],
    ),
    "texts of here-documents": (
        "cat <<EOF >x\nexport A=b it's\nEOF\ncat <<-'END'\n\tA=c \"\n\tEND\nexport D=e\n",
        [(7, "D", "e")],
    ),
    "here-document for sbatch": (
        "sbatch <<EOF\n#!/bin/bash\nexport A=\\$B C=d\nEOF\n", [(3, "A", None), (3, "C", "d")],
    ),
    "here-document for bash": ("srun -n 2 bash -s <<'E'\nA=b cmd\nE\n", [(2, "A", "b")]),
    "here-document for a script": ("bash job.sh <<'E'\nA=b cmd\nE\n", []),
    "here-document in a substitution": (
        "export A=$(cat <<EOF\nit's )\nEOF\n) # it's\nexport B=$(f # don't\n)\nexport C=d\n",
        [(1, "A", None), (5, "B", None), (7, "C", "d")],
    ),
    "here-document with an escaped end in a substitution": (
        "x=$(cat << \\EOF\nit's ( a \" $B\nEOF\n)\nexport C=d\n", [(1, "x", None), (5, "C", "d")],
    ),
    "text for bash": (
        'CMD="\nexport A=b\ncmd"\nsrun bash -c "$CMD"\n',
        [(1, "CMD", "\nexport A=b\ncmd"), (2, "A", "b")],
    ),
    "text that read keeps": (
        "read -r -d '' CMD <<EOF\nexport A=b\ncmd\nEOF\nsrun bash -c \"${CMD}\"\n", [(2, "A", "b")],
    ),
    "sbatch in a substitution": (
        "J=$(sbatch --parsable <<EOF\nexport A=b\nEOF\n)\n", [(1, "J", None), (2, "A", "b")],
    ),
    "srun in a substitution": ('echo "$(\nA=b srun cmd\n)"\n', [(2, "A", "b")]),
    "text that no shell gets": (
        "X='export A=b'\necho \"$X\" $(A=b cmd)\nread X <<EOF\nexport A=b\nEOF\n",
        [(1, "X", "export A=b")],
    ),
    "unclosed computed script": ('bash -c "export A=1; cmd $X it\'s"\n', [(1, "A", "1")]),
    "shifted bits": (
        "(( F = 1 << 3 ))\nexport A=1\nfor ((i=0; i<1<<2; i++)); do export B=2; done\n",
        [(2, "A", "1"), (3, "B", "2")],
    ),
    "subshells like a sum": ("((export A=1; a); b)\n", [(1, "A", "1")]),
    "quote in a sum": ('((("$N" << 1) > 2)) && export A=1', [(1, "A", "1")]),
    "brackets in a sum": ("(((1<<3)+1)) && export A=1", [(1, "A", "1")]),
    "sums on several lines": (
        'if (("$N" > 1)); then export A=1; fi\necho "a $((2))"\n((X=1<<2))\n', [(1, "A", "1")],
    ),
    "sum in backquotes": (
        'B="X=`echo $((1 << 4))\n`"\nexport A=1\n', [(1, "B", None), (3, "A", "1")],
    ),
    "apostrophe in a default": (
        "export A=\"${B:-it's} a' b}\" C=d\n", [(1, "A", None), (1, "C", "d")],
    ),
    "continued lines": (
        "srun \\\n  --export=ALL,A=1 \\\n  cmd\nexport \\\n B=2\n", [(2, "A", "1"), (5, "B", "2")],
    ),
    "gone before any command": (
        "export A=1\nunset A\nexport B=1\nexport B=2\ncmd\n", [(4, "B", "2")],
    ),
    "exported no more": ("export A=1\nexport -n A\n", []),
    "two branches": (
        "if a; then\nexport A=1\nelse\nexport A=2\nfi\n", [(2, "A", "1"), (4, "A", "2")],
    ),
    "longer value": ("export A=b\ncmd\nA+=c\n", [(1, "A", "b"), (3, "A", None)]),
    "directive of exports": ("#SBATCH --export=ALL,A=b\n", [(1, "A", "b")]),
    "directive behind a command": (
        "export A=1\n#SBATCH --export=ALL,B=2\n", [(1, "A", "1")],
    ),
    "fallback of the unknown": (
        "export A=$B\nexport A=${A:-2}\n", [(1, "A", None)],
    ),
    "fallback for one command": (
        "A=1\nA=${A:-2} ./train\n", [(1, "A", "1"), (2, "A", "1")],
    ),
    "fallback of the empty": ("export A=\nexport A=${A:-2}\n", [(2, "A", "2")]),
    "fallback of the unset": ("export A=1\nunset A\nexport A=${A:-2}\n", [(3, "A", "2")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SCRIPTS.values(), ids=SCRIPTS)
def test_assignments_of_a_script(text: str, expected: list[tuple[int, str, str | None]]) -> None:
    """A script sets these variables on these lines."""
    assert pairs(text) == expected


ENDS = (
    ("sbatch <<EOF\n\nexport A=b\nEOF\nx\n", [("A", 3, 4)]),
    ("cat <<EOF | sbatch\nexport A=b\nEOF\nx\n", [("A", 2, 3)]),
    ('srun bash -c "\nexport A=b \\\n  C=d\ncmd\nexport E=f\ncmd"\nexport G=h\n',
     [("A", 2, 6), ("C", 3, 6), ("E", 5, 6), ("G", 7, None)]),
    ("\neval '\nexport A=b'\ncmd\n", [("A", 3, None)]),
    ("export A=1\ncmd\nunset A\nexport B=1\ncmd\nexport B=2\nC=1 srun \\\n cmd\n",
     [("A", 1, 3), ("B", 4, 6), ("B", 6, None), ("C", 7, 8)]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ENDS)
def test_the_end_of_a_variable(text: str, expected: list[tuple[str, int, int | None]]) -> None:
    """A variable stands to its unset, to where it is set anew, or as long as its command."""
    assert ends(text) == expected


@pytest.mark.parametrize("word", ["$CMD", '"$CMD"', "${CMD}"])
def test_eval_of_a_variable(word: str) -> None:
    """A command kept in a variable is read where eval gets it, and what it sets stays."""
    text = f'\nCMD="srun --gpus-per-task=1 train; export A=b"\neval {word}\ncmd\n'
    assert options(text) == [("srun", "gpus-per-task", "1", 2)]
    assert [one for one in ends(text) if one[0] == "A"] == [("A", 2, None)]


@pytest.mark.parametrize("program", ["eval", "bash -c"])
def test_variables_that_hold_one_another(program: str) -> None:
    """A chain of variables, each a script that runs the next one, is read a few links deep."""
    chain = "".join(f"A{at}='{program} \"$A{at + 1}\"'\n" for at in range(99))
    assert pairs(f'{chain}{program} "$A0"\nexport B=1\n')[-1] == (101, "B", "1")


@pytest.mark.parametrize("head", ["[[ $X ]] &&", "((X)) &&", "case $X in a)", "true ||"])
def test_a_condition_keeps_both_values(head: str) -> None:
    """Of a variable that is set anew under a condition alone, both values may hold."""
    assert pairs(f"export A=1\n{head} export A=2\n") == [(1, "A", "1"), (2, "A", "2")]


@pytest.mark.parametrize(
    "between",
    [
        "T=$(./bench)", "T=`./bench`", 'echo "ring $(./bench)"', "export T=$(( $(./bench) + 1 ))",
        "read T < <(./bench)", "echo <(./bench) >(./bench)", "source ./bench.sh", ". ./bench.sh",
    ],
)  # fmt: skip
def test_what_a_command_in_a_word_sees_is_not_lost(between: str) -> None:
    """A value that a command inside a word, or a script that is read in, may see is kept."""
    first, second = of_a(f"export A=1\n{between}\nexport A=2\n")
    assert (first.value, first.until_line, second.value) == ("1", 3, "2")
    assert second.instead_of is None


@pytest.mark.parametrize("between", ["T='$(./bench)'", "T=$((1 << 2))", 'echo "$T"', ": \\`"])
def test_a_word_that_runs_nothing_sees_no_value(between: str) -> None:
    """A text, a sum and a variable run no command, so the value before them never counts."""
    (setting,) = of_a(f"export A=1\n{between}\nexport A=2\n")
    assert setting.instead_of == LostValue(value="1", line=1)


@pytest.mark.parametrize(
    "line",
    ["export A=${A:-2}", "A=${A-2}", 'export "A=${A:=2}"', ': "${A:=2}"', "declare A=${A:-2}"],
)
def test_a_fallback_leaves_the_value_that_stands(line: str) -> None:
    """`${A:-b}` sets nothing where the script has set A before."""
    for between in ("", "./bench\n"):
        (setting,) = of_a(f"export A=1\n{between}{line}\n./train\n")
        assert setting == Setting(name="A", value="1", line=1, form=SettingForm.EXPORT)


OPTIONS: Final[tuple[tuple[str, list[tuple[str, str, str | None, int]]], ...]] = (
    ("#!/bin/bash\n#SBATCH -N 4 --gpus-per-task=1 # why\n#SBATCH --export=ALL,A=b\n"
     "## SBATCH --nodes=9\nhostname\n#SBATCH --ntasks=3\n",
     [("sbatch", "nodes", "4", 2), ("sbatch", "gpus-per-task", "1", 2),
      ("sbatch", "export", "ALL,A=b", 3)]),
    ('#SBATCH --comment="a # b" -q long stray --nodes="2" # --ntasks=4\n',
     [("sbatch", "nodes", "2", 1)]),
    ("#SBATCH --comment=it's --nodes=2\n", [("sbatch", "nodes", "2", 1)]),
    ("cd /x\n#SBATCH --nodes=2\n", []),
    ("sbatch <<EOF\n#!/bin/bash\n#SBATCH -N 2\nEOF\n", [("sbatch", "nodes", "2", 3)]),
    ("srun -n8 --gpu-bind=single:1 --exclusive -N 2 cmd --gpu-bind=none\n",
     [("srun", "ntasks", "8", 1), ("srun", "gpu-bind", "single:1", 1),
      ("srun", "exclusive", None, 1), ("srun", "nodes", "2", 1)]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), OPTIONS)
def test_options(text: str, expected: list[tuple[str, str, str | None, int]]) -> None:
    """Directives before the first command are sbatch's; srun's end where its command begins."""
    assert options(text) == expected


@pytest.mark.parametrize(
    ("text", "line_no"),
    [
        ("export A='b\n", 1),
        ('x\nexport A="b\n', 2),
        ("export A=$(b\n", 1),
        ("a\nb\nexport A=`b\n", 3),
        ("export A=${b\n", 1),
        ("x\nexport A=$'b\n", 2),
        ("x\ncat <<EOF\nexport A=b\n", 2),
        ("cat <<A <<B\nA\n", 1),
        ("cat <<EOF", 1),
        ("x\nsrun bash -c 'a\nexport A=\"b'\n", 3),
    ],
)
def test_what_never_ends_is_refused(text: str, line_no: int) -> None:
    """A quote, bracket or here-document without its end is refused with its line."""
    with pytest.raises(ParseError) as caught:
        parse_shell(text, "job.sh")
    assert caught.value.line_no == line_no


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
        "cat << \\EOF\nit's )\nEOF",
        'echo $(date)#")"',
    ],
)
def test_sums_and_comments_in_a_substitution(inner: str) -> None:
    """Inside `$(…)` too a `<<` of a sum shifts bits, and a comment may begin behind a sign."""
    for word in (f"$(\n{inner}\n)", f'"$(\n{inner}\n)"', f"$( {inner}\n)"):
        assert pairs(f"B={word}\nexport A=1\n")[-1][1:] == ("A", "1")
