"""The srun that asks nodes, and the words in which it is refused."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.node.probe import MARK, AnswerReader, answer_lines, error_document, error_in
from hpckit.node.remote import is_of_some_node, srun_probe_argv, words_about


def task(python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a node makes of its task; the only Pythons are in `folder`."""
    argv = srun_probe_argv(["c1"], python, "/shared/probe.pyz", 20, [])
    (folder / "sh").symlink_to("/bin/sh")
    (folder / "tail").symlink_to("/usr/bin/tail")
    env = {"PATH": os.fspath(folder), "SLURMD_NODENAME": "c1"}
    return subprocess.run(
        argv[argv.index("sh") :], env=env, capture_output=True, text=True, check=False
    )


def program(path: Path, text: str) -> None:
    """A program that a node has."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_python_of_this_host_comes_first(tmp_path: Path) -> None:
    """Where it is there, it gets the archive, the verb and the time."""
    program(tmp_path / "mine", 'echo mine "$@"')
    program(tmp_path / "python3", "echo theirs")
    done = task(os.fspath(tmp_path / "mine"), tmp_path)
    assert (done.returncode, done.stdout) == (0, "mine -I /shared/probe.pyz probe 20\n")


def test_the_newest_python_of_the_node_comes_next(tmp_path: Path) -> None:
    """A node whose python3 is too old may have a newer one beside it."""
    program(tmp_path / "python3.12", "echo newer")
    program(tmp_path / "python3", "echo older")
    assert task("/not/there", tmp_path).stdout == "newer\n"


def test_a_probe_that_fails_says_where(tmp_path: Path) -> None:
    """The last line of what it said has its node's name, and the code is passed on."""
    program(tmp_path / "python3", "echo first >&2; echo cannot open it >&2; exit 3")
    done = task("/not/there", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert words_about("c1", done.stderr.splitlines()) == "hpckit: c1: cannot open it"


def test_a_probe_that_is_killed_says_so(tmp_path: Path) -> None:
    """One that had no time to speak has its code."""
    program(tmp_path / "python3", "exit 142")
    assert task("/not/there", tmp_path).stderr == "hpckit: c1: the probe exited with 142\n"


@pytest.mark.parametrize(
    ("words", "is_of_one"),
    [
        ("Unable to allocate resources: Requested nodes are busy", True),
        ("Required node not available (down, drained or reserved)", True),
        ("Unable to allocate resources: Requested node configuration is not available", True),
        ("Invalid account or account/partition combination specified", False),
        ("Unable to confirm allocation for job 7: Invalid job id specified", False),
    ],
)
def test_refusals_of_one_node_are_told_apart(words: str, *, is_of_one: bool) -> None:
    """What may hold for a single node is worth another question, what holds for all is not."""
    assert is_of_some_node(f"srun: error: {words}\n") is is_of_one


def test_the_command_is_one_line_of_the_accounts() -> None:
    """Slurm keeps it as SubmitLine, and whoever reads that takes a line for a job."""
    argv = srun_probe_argv(["c1"], "/opt/python", "/shared/probe.pyz", 20, ["--job-name=x"])
    assert "\n" not in " ".join(argv)


DOCUMENT = bytes(random.Random(7).randbytes(20_000))  # noqa: S311  what zlib cannot compress


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}[0-9]{1,3}", fullmatch=True),
                       st.binary(max_size=5000), max_size=6), st.randoms())  # fmt: skip
def test_mixed_lines_give_every_answer_whole(
    answers: dict[str, bytes], order: random.Random
) -> None:
    """Whatever the order in which the lines of several nodes arrive, each document comes back."""
    lines = [line for node, document in answers.items() for line in answer_lines(node, document)]
    order.shuffle(lines)
    reader = AnswerReader(answers)
    found = [one for line in lines if (one := reader.read(line)) is not None]
    assert dict(found) == answers


def test_a_missing_piece_is_no_answer() -> None:
    """Without one of its lines an answer never comes."""
    reader = AnswerReader(["c1"])
    assert [reader.read(line) for line in list(answer_lines("c1", DOCUMENT))[:-1]] == [None] * (
        len(list(answer_lines("c1", DOCUMENT))) - 1
    )


def test_other_lines_are_kept_as_talk() -> None:
    """What a login script printed is no answer, and is not lost."""
    reader = AnswerReader(["c1"])
    assert reader.read("Welcome to node c1\n") is None
    assert reader.other == ["Welcome to node c1"]


def test_pieces_that_do_not_fit_say_whose_they_were() -> None:
    """A damaged piece gives the node without a document."""
    assert AnswerReader(["c1"]).read(f"{MARK} c1 1/1 bm90IHpsaWI=") == ("c1", None)


def test_a_bomb_is_not_unpacked() -> None:
    """A document over 16 MiB is no document, however small it came."""
    lines = list(answer_lines("c1", bytes(17 * 1024**2)))
    reader = AnswerReader(["c1"])
    assert [reader.read(line) for line in lines][-1] == ("c1", None)


def test_what_was_not_asked_is_talk() -> None:
    """Pieces of a node that was not asked are not kept: names can be made up without end."""
    reader = AnswerReader(["c1"])
    (line,) = answer_lines("c2", b"{}")
    assert reader.read(line) is None
    assert reader.other == [line]


def test_talk_without_end_is_not_kept() -> None:
    """A node that prints without end costs a thousand lines of 400 characters."""
    reader = AnswerReader(["c1"])
    for _ in range(3000):
        reader.read("x" * 9000 + "\n")
    assert [len(line) for line in reader.other] == [400] * 1000


def test_a_node_that_cannot_tell_says_why() -> None:
    """The reason travels as the answer."""
    assert error_in(error_document("no /sys here")) == "no /sys here"
    assert error_in(b'{"gpus": []}') is None
