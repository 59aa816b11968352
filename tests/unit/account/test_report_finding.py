"""Sentences of findings are made of fields."""

from __future__ import annotations

import pytest

from hpckit.account.finding import Figure, Subject, Unit, count, said, seconds, share


@pytest.mark.parametrize(
    ("figure", "told"),
    [
        (share(0.0), "0 %"),
        (share(0.004), "0.4 %"),
        (share(0.0004), "<0.1 %"),
        (share(0.544), "54 %"),
        (seconds(5.04), "5.0 s"),
        (seconds(330), "5:30"),
        (count(18.0), "18"),
        (Figure(1754.6, Unit.MHZ), "1755 MHz"),
        (Figure(87.2, Unit.CELSIUS), "87 °C"),
        (Figure(699.9, Unit.WATTS), "700 W"),
    ],
)
def test_a_figure_is_told_with_its_unit(figure: Figure, told: str) -> None:
    """A small share that is not 0 does not read 0; a count has no unit."""
    assert str(figure) == told


def test_texts_between_figures_are_words() -> None:
    """Braces of a text are no places for figures."""
    (clause,) = said("of {} of the time {} is not known: {}", share(0.5), "{x}", "no {}")
    assert clause.words == ("of ", " of the time {x} is not known: no {}")
    assert str(clause) == "of 50 % of the time {x} is not known: no {}"


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        (Subject(what="time limit"), "time limit"),
        (Subject(nodes=("n2", "n1")), "n[1-2]"),
        (Subject(what="GPU0-3", nodes=("n1",)), "GPU0-3 on n1"),
        (Subject(what="GPU3", nodes=("n1",), restart=2), "GPU3 on n1 (restart 2)"),
        (Subject(what="GPU3", nodes=("n1",), ranks=(11,)), "rank 11, GPU3 on n1"),
        (Subject(what="GPU3", nodes=("n1",), ranks=(3, 4, 7)), "ranks 3-4,7, GPU3 on n1"),
    ],
)
def test_a_subject_is_told(subject: Subject, told: str) -> None:
    """The ranks, the thing, the nodes, and the run where it is not the first."""
    assert str(subject) == told


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        (Subject(nodes=("n1-ib", "n2-ib")), "n1-ib,n2-ib"),
        (Subject(nodes=("n1-ib", "n2-ib", "n3-ib"), restart=1), "3 nodes (restart 1)"),
        (Subject(nodes=("a-node-with-a-long-name",)), "a-node-with-a-long-name"),
        (Subject(what="GPU3", ranks=(1, 3, 5, 7, 9, 11)), "6 ranks, GPU3"),
    ],
)
def test_of_a_long_list_its_number_is_told(subject: Subject, told: str) -> None:
    """Of nodes as of ranks; a single one keeps its name."""
    assert subject.told(longest=12) == told


GPU3 = Subject(what="GPU3", nodes=("n1",), ranks=(11,))


@pytest.mark.parametrize(
    ("other", "is_of"),
    [
        (Subject(what="GPU3", nodes=("n1",)), True),
        (Subject(nodes=("n1",)), True),
        (Subject(nodes=("n1", "n2")), True),
        (Subject(what="GPU13", nodes=("n1",)), False),
        (Subject(what="GPU3", nodes=("an1",)), False),
        (Subject(what="GPU3", nodes=("n1",), restart=1), False),
        (Subject(what="GPU3"), False),
    ],
)
def test_what_is_about_a_gpu(other: Subject, *, is_of: bool) -> None:
    """The GPU itself and its node are, in the same run; another whose name ends alike is not."""
    assert other.is_of(GPU3) == is_of
