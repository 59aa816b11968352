from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.app.lint import lint_text
from hpckit.errors import ParseError
from hpckit.model.comm import NcclVersion
from hpckit.model.comm_lint import LintFacts
from hpckit.parse.settings_file import parse_settings
from tests.pace import slowness

LONG = 200_000
MOST_S = 3.0
"""Measured: at most 0.9 s; what grew with the square took 4 s and more."""

NAMES = st.sampled_from(["job.sh", "x", "nccl.conf", "job.toml", "env.txt"])
PIECES = st.lists(
    st.sampled_from(
        [
            "export ", "NCCL_DEBUG", "NCCL_IB_HCA", "=", "=mlx5_1", "+=", "'", '"', "`", "$(", ")",
            "${", "}", "((", "<<EOF\n", "EOF\n", "<<", "\\", "\\\n", "\n", "#", "#SBATCH --export=",
            "srun ", "--export ", "ALL,", "mpirun -x ", ";", "&", "|", ">", "{", "env ", " ", "\t",
            "[tune]\n", 'schema = "hpckit.job/1"\n', "\0", "\x1c", "\u00a0", "case x in a)", "!",
            "bash -c '", 'eval "', "sbatch <<EOF\n", "timeout 1 ",
        ]
    )
)  # fmt: skip
WORDS = st.text("abcXYZ019_=,:^ '\"$#\\", max_size=12)
VARIABLES = st.sampled_from(["NCCL_IB_HCA", "NCCL_ALGO", "UCX_TLS", "MASTER_PORT", "A"])


def answer(data: bytes, name: str) -> None:
    """The findings of a file, or the error of one that is none."""
    facts = LintFacts(interfaces=("eth0",), nics=("mlx5_0", "mlx5_10"), nodes=2, is_vm=False)
    try:
        found = lint_text(data, name, nccl=NcclVersion.of("2.27.3"), facts=facts)
    except ParseError as error:
        assert error.line_no >= 1
        return
    keys = [(one.rule, one.line_no, one.subject) for one in found]
    assert len(keys) == len(set(keys))
    lines = data.count(b"\n") + data.count(b"\0") + 1
    assert all(1 <= one.line_no <= lines for one in found)


@given(st.binary(max_size=200), NAMES)
def test_any_bytes_give_findings_or_a_parse_error(data: bytes, name: str) -> None:
    """Whatever a file holds, the answer is findings with lines of the file, or a ParseError."""
    answer(data, name)


@given(PIECES, NAMES)
def test_any_shell_gives_findings_or_a_parse_error(pieces: list[str], name: str) -> None:
    """The same of texts made of what scripts are made of."""
    answer("".join(pieces).encode(), name)


@given(st.dictionaries(VARIABLES, WORDS, max_size=4))
def test_quoted_exports_are_read_as_the_shell_would(values: dict[str, str]) -> None:
    """Any value in single quotes comes back as it is."""
    quoted = {name: "'" + value.replace("'", "'\\''") + "'" for name, value in values.items()}
    text = "".join(f"export {name}={value}\n" for name, value in quoted.items())
    found = parse_settings(text.encode(), "job.sh").assignments
    assert {one.name: one.value for one in found} == values


@given(st.dictionaries(VARIABLES, WORDS, max_size=4))
def test_zero_ended_output_is_read_as_it_is(values: dict[str, str]) -> None:
    """What `env -0` prints gives each variable its value."""
    data = "".join(f"{name}={value}\0" for name, value in (("HOME", "/"), *values.items()))
    found = parse_settings(data.encode(), "x").assignments
    assert {one.name: one.value for one in found} == {"HOME": "/"} | values


HOSTILE = (
    "$(", "'", '"$(', "<<a\n", "a=", "export A=b\n", "NCCL_IB_HCA=a,\n", "((", "`\\", "srun -n ",
    "$(<<a ", "#SBATCH --export=a=,\n", "export NCCL_IB_TC=1 NCCL_IB_DISABLE=0\nx\n", "srun ",
    "((x ", "((x) ", "NCCL_IB_TC=1 NCCL_IB_DISABLE=0 x\n", "exec env ",
    "srun --gpu-bind=single:1 x; ", "srun --export=B=1 x\n",
    "bash -c 'A=1 x'; ", "bash -c \"", "eval ", "timeout ", "#SBATCH '\" ", "srun $A ", "$(srun ",
    "A='b c' bash -c \"$A\"; ", "A=$(srun x)\n",
    "mpirun ", "sbatch <<E\nA=1 x\nE\n",
    "export NCCL_IB_HCA=a\nsrun --export=B=1 x\n",
)  # fmt: skip


@pytest.mark.parametrize("piece", [pytest.param(one, id=str(at)) for at, one in enumerate(HOSTILE)])
def test_hostile_texts_take_linear_time(piece: str) -> None:
    """A text that opens, nests or repeats without end is answered in proportion to its length."""
    began_s = time.process_time()
    answer((piece * (LONG // len(piece))).encode(), "job.sh")
    assert time.process_time() - began_s < MOST_S * slowness()


def test_nested_brackets_take_linear_time() -> None:
    """The same of brackets that look like arithmetic until their end."""
    began_s = time.process_time()
    count = LONG // 6
    answer(("((x " * count + ")b)" * count).encode(), "job.sh")
    assert time.process_time() - began_s < MOST_S * slowness()


@pytest.mark.parametrize("piece", ["a ", "-N 1 a ", "-- "])
def test_a_long_directive_takes_linear_time(piece: str) -> None:
    """The same of one `#SBATCH` line with very many words."""
    began_s = time.process_time()
    answer(("#SBATCH " + piece * (LONG // len(piece))).encode(), "job.sh")
    assert time.process_time() - began_s < MOST_S * slowness()


@pytest.mark.parametrize("piece", ['x\\"\\n', 'x\\"", "'])
def test_a_long_setup_takes_linear_time(piece: str) -> None:
    """The same of one line of a job file with very many texts that it does not hold as they are."""
    began_s = time.process_time()
    setup = piece * (LONG // len(piece))
    answer(f'schema = "hpckit.job/1"\n[environment]\nsetup = ["{setup}"]\n'.encode(), "x.toml")
    assert time.process_time() - began_s < MOST_S * slowness()


def test_a_long_text_that_many_shells_get_takes_linear_time() -> None:
    """The same of a text in a variable that is given to a shell again and again."""
    began_s = time.process_time()
    text = "export B=1\n" * (LONG // 20)
    answer((f"A='{text}'\n" + 'bash -c "$A"\n' * (LONG // 20)).encode(), "job.sh")
    assert time.process_time() - began_s < MOST_S * slowness()


def test_many_names_take_linear_time() -> None:
    """The same of a text with very many names that nobody knows."""
    began_s = time.process_time()
    answer("".join(f"export NCCL_X{at}=1\n" for at in range(LONG // 20)).encode(), "job.sh")
    assert time.process_time() - began_s < MOST_S * slowness()
