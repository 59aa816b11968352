"""Answers of nodes, cut into lines that may arrive mixed."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hpckit.node.probe import MARK, AnswerReader, answer_lines, error_document, error_in

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


def test_a_line_is_shorter_than_what_srun_hands_on_at_once() -> None:
    """No line is longer than srun's 1 KiB, so none is cut by it."""
    lines = list(answer_lines("c1", DOCUMENT))
    assert len(lines) > 1
    assert max(map(len, lines)) < 1000


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
    assert [len(line) for line in reader.other[:-1]] == [400] * 1000
    assert reader.other[-1] == "… and 2000 lines more"


def test_a_node_that_cannot_tell_says_why() -> None:
    """The reason travels as the answer."""
    assert error_in(error_document("no /sys here")) == "no /sys here"
    assert error_in(b'{"gpus": []}') is None
