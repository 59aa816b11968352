"""Predicted bus bandwidth on a screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.comm.bandwidth.predict import busbw_lines, predict
from hpckit.comm.bandwidth.values import BusbwPrediction
from hpckit.core.text import Line, Style, columns
from tests.fakes.busbw_machines import switched


def best(nodes: int) -> list[BusbwPrediction]:
    """The best of each collective on boards of H100."""
    return [one for one in predict(switched(), nodes) if one.is_best]


def lines(width: int = 80, nodes: int = 4) -> list[Line]:
    """The screen of a board of H100."""
    return list(busbw_lines(best(nodes), where="4 nodes × 8 GPUs", width=width))


def test_the_title_and_the_answer_come_first() -> None:
    """What it is, the head of the table, then the best of AllReduce with what bounds it."""
    first, head, answer, *_ = lines()
    assert (first.text, first.style) == (" predicted bus bandwidth, 4 nodes × 8 GPUs", Style.TITLE)
    assert head.text.split() == ["GB/s", "by", "limited", "by"]
    assert answer.text.startswith(" AllReduce       384  Ring")
    assert "8 NICs of 48 GB/s" in answer.text


def test_a_caveat_names_whom_it_is_about() -> None:
    """A note is said once, with the collectives it holds for."""
    notes = [line.text for line in lines(width=200) if line.style is Style.NOTE]
    (about,) = [text for text in notes if "not in NCCL's tuning model" in text]
    assert about.endswith("(AllToAll)")


def test_of_two_caveats_each_is_said_once() -> None:
    """What holds for all is not said again with what holds for one of them."""
    first, second, *_ = best(1)
    both = [replace(first, caveat="this; that"), replace(second, caveat="this")]
    made = busbw_lines(both, where="1 node", width=200)
    notes = [line.text for line in made if line.style is Style.NOTE]
    names = [one.collective.value for one in both]
    assert notes == [f" note: this ({', '.join(names)})", f" note: that ({names[0]})"]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_lines_fit(width: int) -> None:
    """No line is wider than the terminal."""
    assert max(columns(line.text) for line in lines(width)) <= width


def test_without_any_figure_a_sentence_says_why() -> None:
    """Nothing is shown as zero, and a reason that all share is told once."""
    found = predict(replace(switched(), nics=()), 2)
    texts = [line.text for line in busbw_lines(found, where="2 nodes", width=200)]
    assert len(texts) == 1
    assert texts[0].startswith(" predicted bus bandwidth: unknown (")
    assert "no NIC" in texts[0]


def test_an_unknown_figure_beside_known_ones_is_a_question_mark() -> None:
    """A collective without a figure stands in the table with its reason."""
    known = best(2)
    lacking = tuple(
        replace(one, busbw_bytes_per_s=None, because="why") if one == known[0] else one
        for one in known
    )
    texts = [line.text for line in busbw_lines(lacking, where="2 nodes", width=100)]
    assert any("AllReduce" in text and "?" in text and "why" in text for text in texts)
