from __future__ import annotations

import pytest

from hpckit.errors import ParseError
from hpckit.model.comm_lint import SettingForm
from hpckit.parse.shell_script import parse_shell


def pairs(text: str) -> list[tuple[int, str, str | None]]:
    """Line, name and value of each assignment."""
    return [(one.line, one.name, one.value) for one in parse_shell(text, "job.sh").assignments]


def forms(text: str) -> list[tuple[str, SettingForm]]:
    """Name and form of each assignment."""
    return [(one.name, one.form) for one in parse_shell(text, "job.sh").assignments]


def ends(text: str) -> list[tuple[str, int, int | None]]:
    """Name, first and last line of each assignment."""
    found = parse_shell(text, "job.sh").assignments
    return [(one.name, one.line, one.until_line) for one in found]


def options(text: str) -> list[tuple[str, str, str | None, int]]:
    """Program, name, value and line of each option."""
    found = parse_shell(text, "job.sh").options
    return [(one.program, one.name, one.value, one.line) for one in found]


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
    """A file says how each variable is set: for the shell, for all, for one command."""
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


def test_variables_for_a_container() -> None:
    """What is exported for apptainer alone is a variable inside it, and none outside."""
    text = "export APPTAINERENV_A=1\nexport SINGULARITYENV_B=2\nSINGULARITYENV_C=3\n"
    assert forms(text) == [
        ("A", SettingForm.OPTION),
        ("B", SettingForm.OPTION),
        ("C", SettingForm.SHELL),
    ]


def test_options_in_an_array() -> None:
    """Options that an array keeps for a launcher set variables, each on its line."""
    text = 'ARGS=(\n  -x A=1 # b\n  --mca btl "^openib"\n)\nmpirun "${ARGS[@]}" cmd\n'
    assert pairs(text)[1:] == [(2, "A", "1"), (3, "OMPI_MCA_btl", "^openib")]
    assert pairs("declare -a ARGS=(--export=ALL,B=2 -e C=$D)\n") == [
        (1, "B", "2"),
        (1, "C", None),
        (1, "ARGS", None),
    ]
    assert pairs("a $(b=(c) 'd=(e')\n") == []


def test_options_in_a_text() -> None:
    """Options that a text keeps for a launcher set variables too."""
    text = "ARGS=\" -x A=1 \\\n  --export=ALL,B=$C\"\nARGS+=' -x D=2'\nLIBS='-L it\"s'\nE='A=1'\n"
    found = [one for one in pairs(text) if one[1] not in ("ARGS", "LIBS", "E")]
    assert found == [(1, "A", "1"), (3, "D", "2")]


def test_an_export_of_a_name() -> None:
    """A variable that is exported after it is set is an export, on the line that sets it."""
    assert forms("A=1\nexport A\n") == [("A", SettingForm.EXPORT)]
    assert pairs("A=1\nexport A\n") == [(1, "A", "1")]
    assert forms("export A\nA=1\n") == [("A", SettingForm.EXPORT)]
    assert forms("export A\nunset A\nA=1\n") == [("A", SettingForm.SHELL)]
    loop = "A=1\nfor one in A; do export $one; done\nB=1\n"
    assert forms(loop) == [("A", SettingForm.EXPORT), ("B", SettingForm.SHELL)]


def test_here_documents_are_no_settings() -> None:
    """The body of a here-document is text, and quotes in it open nothing."""
    text = "cat <<EOF >x\nexport A=b it's\nEOF\ncat <<-'END'\n\tA=c \"\n\tEND\nexport D=e\n"
    assert pairs(text) == [(7, "D", "e")]


def test_a_here_document_that_a_shell_reads() -> None:
    """The body is a script where a shell or sbatch reads it, with the lines that it stands on."""
    job = "#!/bin/bash\n#SBATCH -N 2\nexport A=\\$B C=d\nEOF\nx\n"
    assert pairs(f"sbatch <<EOF\n{job}") == [(4, "A", None), (4, "C", "d")]
    assert ends(f"cat <<EOF | sbatch\n{job}") == [("A", 4, 5), ("C", 4, 5)]
    assert options(f"sbatch <<EOF\n{job}") == [("sbatch", "nodes", "2", 3)]
    assert pairs("srun -n 2 bash -s <<'E'\nA=b cmd\nE\n") == [(2, "A", "b")]
    assert pairs("bash job.sh <<'E'\nA=b cmd\nE\n") == []


def test_lines_of_a_script_in_quotes() -> None:
    """A variable set in a script in quotes has the line that it stands on, and ends with it."""
    text = 'srun bash -c "\nexport A=b \\\n  C=d\ncmd\nexport E=f\ncmd"\nexport G=h\n'
    assert ends(text) == [("A", 2, 6), ("C", 3, 6), ("E", 5, 6), ("G", 7, None)]
    assert ends("\neval '\nexport A=b'\ncmd\n") == [("A", 3, None)]


@pytest.mark.parametrize(
    "text",
    [
        'CMD="\nexport A=b\ncmd"\nsrun bash -c "$CMD"\n',
        "read -r -d '' CMD <<EOF\nexport A=b\ncmd\nEOF\nsrun bash -c \"${CMD}\"\n",
        "JOB=$(sbatch --parsable <<EOF\nexport A=b\nEOF\n)\n",
        'echo "$(\nA=b srun cmd\n)"\n',
    ],
    ids=["text", "read", "sbatch", "srun"],
)
def test_a_script_behind_a_variable(text: str) -> None:
    """A script kept in a variable, or in `$(…)`, is read where a shell or a launcher gets it."""
    assert [one for one in pairs(text) if one[1] == "A"] == [(2, "A", "b")]


@pytest.mark.parametrize("word", ["$CMD", '"$CMD"', "${CMD}"])
def test_eval_of_a_variable(word: str) -> None:
    """A command kept in a variable is read where eval gets it, and what it sets stays."""
    text = f'\nCMD="srun --gpus-per-task=1 train; export A=b"\neval {word}\ncmd\n'
    assert options(text) == [("srun", "gpus-per-task", "1", 2)]
    assert [one for one in ends(text) if one[0] == "A"] == [("A", 2, None)]


@pytest.mark.parametrize("program", ["eval", "bash -c"])
def test_variables_that_hold_one_another(program: str) -> None:
    """A chain of variables, each a script that runs the next one, is read a few links deep."""
    chain = "".join(f"A{at}='{program} \"$A{at + 1}\"'\n" for at in range(999))
    assert pairs(f'{chain}{program} "$A0"\nexport B=1\n')[-1] == (1001, "B", "1")


def test_a_text_that_no_shell_gets() -> None:
    """A text or a substitution that no shell and no launcher gets sets nothing."""
    text = "X='export A=b'\necho \"$X\" $(A=b cmd)\nread X <<EOF\nexport A=b\nEOF\n"
    assert [one for one in pairs(text) if one[1] == "A"] == []


def test_a_script_in_quotes_that_never_ends() -> None:
    """What never ends in a script in quotes is refused, where the shell computes nothing in it."""
    with pytest.raises(ParseError) as caught:
        parse_shell("x\nsrun bash -c 'a\nexport A=\"b'\n", "job.sh")
    assert caught.value.line_no == 3
    assert pairs('bash -c "export A=1; cmd $X it\'s"\n') == [(1, "A", "1")]


def test_a_here_document_in_a_substitution() -> None:
    """The same inside `$(…)`, where a comment may hold quotes too."""
    text = "export A=$(cat <<EOF\nit's )\nEOF\n) # it's\nexport B=$(f # don't\n)\nexport C=d\n"
    assert pairs(text) == [(1, "A", None), (5, "B", None), (7, "C", "d")]


def test_shifted_bits_are_no_here_document() -> None:
    """In `((…))` a `<<` shifts bits, and what follows is read; brackets of subshells stay such."""
    text = "(( F = 1 << 3 ))\nexport A=1\nfor ((i=0; i<1<<2; i++)); do export B=2; done\n"
    assert pairs(text) == [(2, "A", "1"), (3, "B", "2")]
    assert pairs("((export A=1; a); b)\n") == [(1, "A", "1")]


def test_an_apostrophe_in_a_default() -> None:
    """In `${…}` an apostrophe opens a text for bash, within double quotes too."""
    assert pairs("export A=\"${B:-it's} a' b}\" C=d\n") == [(1, "A", None), (1, "C", "d")]


def test_continued_lines() -> None:
    """A variable has the line that it stands on, though its command began earlier."""
    assert pairs("srun \\\n  --export=ALL,A=1 \\\n  cmd\nexport \\\n B=2\n") == [
        (2, "A", "1"),
        (5, "B", "2"),
    ]


def test_the_end_of_a_variable() -> None:
    """A variable stands to its unset, to where it is set anew, or as long as its command."""
    text = "export A=1\ncmd\nunset A\nexport B=1\ncmd\nexport B=2\nC=1 srun \\\n cmd\n"
    assert ends(text) == [("A", 1, 3), ("B", 4, 6), ("B", 6, None), ("C", 7, 8)]


def test_what_nobody_saw_is_left_out() -> None:
    """A variable unset or set anew before any command ran was never in effect."""
    assert pairs("export A=1\nunset A\nexport B=1\nexport B=2\ncmd\n") == [(4, "B", "2")]
    assert pairs("export A=1\nexport -n A\n") == []


def test_branches_keep_both_values() -> None:
    """Of a variable that each branch sets, both values may hold."""
    text = "if a; then\nexport A=1\nelse\nexport A=2\nfi\n"
    assert pairs(text) == [(2, "A", "1"), (4, "A", "2")]


@pytest.mark.parametrize("head", ["[[ $X ]] &&", "((X)) &&", "case $X in a)", "true ||"])
def test_a_condition_keeps_both_values(head: str) -> None:
    """Of a variable that is set anew under a condition alone, both values may hold."""
    assert pairs(f"export A=1\n{head} export A=2\n") == [(1, "A", "1"), (2, "A", "2")]


def test_what_is_never_run() -> None:
    """What stands under `if false` sets nothing, and its `else` does."""
    text = (
        "if false; then\nexport A=1\nif x; then export B=1; fi\nelse\nexport C=1\nfi\nexport D=1\n"
    )
    assert pairs(text) == [(5, "C", "1"), (7, "D", "1")]
    assert pairs("if true; then if false; then\nexport A=1; fi; fi\nexport B=1\n") == [
        (3, "B", "1")
    ]


@pytest.mark.parametrize("more", ["|| [ $X ]", "| cat", "& true"])
def test_a_condition_that_only_begins_with_false(more: str) -> None:
    """What stands under `if false || …` may be run."""
    assert pairs(f"if false {more}; then export A=1; fi\n") == [(1, "A", "1")]


def test_a_longer_value_is_not_known() -> None:
    """`A+=b` gives a value that is not told here."""
    assert pairs("export A=b\ncmd\nA+=c\n") == [(1, "A", "b"), (3, "A", None)]


def test_options_of_directives() -> None:
    """Directives before the first command are options of sbatch, and their exports variables."""
    text = (
        "#!/bin/bash\n#SBATCH -N 4 --gpus-per-task=1 # why\n#SBATCH --export=ALL,A=b\n"
        "## SBATCH --nodes=9\nhostname\n#SBATCH --ntasks=3\n"
    )
    assert options(text) == [
        ("sbatch", "nodes", "4", 2),
        ("sbatch", "gpus-per-task", "1", 2),
        ("sbatch", "export", "ALL,A=b", 3),
    ]
    assert pairs(text) == [(3, "A", "b")]


def test_quotes_in_directives() -> None:
    """A directive may have blanks and a # in quotes, and says more behind them."""
    text = '#SBATCH --comment="a # b" -q long stray --nodes="2" # --ntasks=4\n'
    assert options(text) == [("sbatch", "nodes", "2", 1)]
    assert options("#SBATCH --comment=it's --nodes=2\n") == [("sbatch", "nodes", "2", 1)]


def test_directives_behind_a_command() -> None:
    """A directive behind any line of the script is a comment to Slurm."""
    assert options("cd /x\n#SBATCH --nodes=2\n") == []
    assert pairs("export A=1\n#SBATCH --export=ALL,B=2\n") == [(1, "A", "1")]


def test_options_of_steps() -> None:
    """Options of srun end where its command begins."""
    text = "srun -n8 --gpu-bind=single:1 --exclusive -N 2 cmd --gpu-bind=none\n"
    assert options(text) == [
        ("srun", "ntasks", "8", 1),
        ("srun", "gpu-bind", "single:1", 1),
        ("srun", "nodes", "2", 1),
    ]


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
    ],
)
def test_what_never_ends_is_refused(text: str, line_no: int) -> None:
    """A quote, bracket or here-document without its end is refused with its line."""
    with pytest.raises(ParseError) as caught:
        parse_shell(text, "job.sh")
    assert caught.value.line_no == line_no
