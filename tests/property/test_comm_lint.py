from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.comm.lint import lint_text
from hpckit.comm.lint_rule import LintFacts
from hpckit.comm.settings_files import parse_settings
from hpckit.core.errors import ParseError
from hpckit.spec.platform import NcclVersion

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


LONG = 4_000


@pytest.mark.parametrize("piece", HOSTILE)
def test_what_nests_or_repeats_gives_findings_or_a_parse_error(piece: str) -> None:
    """A text that opens, nests or repeats many times ends in an answer."""
    answer((piece * (LONG // len(piece))).encode(), "job.sh")
