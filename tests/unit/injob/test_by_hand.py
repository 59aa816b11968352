"""What `hpckit sample` says at its end."""

from __future__ import annotations

from hpckit.sampler.main import Place, last_words

TARGET = "account/restart-0/node-n1.samples"
PATH = f"run/{TARGET}"
KEPT = "/tmp/hpckit-samples-0-1-a.samples"


def said(
    reached: str | None, kept: str | None, *, is_lost: bool = False, is_whole: bool = False
) -> list[str]:
    """The lines for six samples of two GPUs; only what is where it belongs is whole."""
    place = Place("run", TARGET, reached, kept, is_lost)
    assert place.is_whole is is_whole
    return last_words(6, 2, "", place).splitlines()


def test_all_of_it_is_where_it_belongs() -> None:
    """The file and what reads it."""
    assert said(PATH, None, is_whole=True) == [
        f" wrote  6 samples of 2 GPUs · {PATH}",
        " next   hpckit report --from run",
    ]


def test_the_rest_is_named_and_joined() -> None:
    """Where a part arrived both files are said, and how they become one."""
    assert said(PATH, KEPT) == [
        f" wrote  a part of 6 samples of 2 GPUs · {PATH}",
        f" rest   {KEPT}",
        f" next   cat {KEPT} >> {PATH} && hpckit report --from run",
    ]


def test_nothing_arrived() -> None:
    """The file of this node gets a folder that can be read."""
    folder = "/tmp/hpckit-samples-0-1-a.d"
    assert said(None, KEPT) == [
        f" wrote  6 samples of 2 GPUs · {KEPT}",
        f" next   mkdir {folder} && mv {KEPT} {folder}/node-n1.samples && "
        f"hpckit report --from {folder}",
    ]


def test_a_file_of_another_name_is_given_its_own() -> None:
    """Where somebody renamed it, `hpckit report` would not take it as it is, whole or in part."""
    moved = "/other/kept.samples"
    reads = (
        "mkdir /other/kept.d && mv /other/kept.samples /other/kept.d/node-n1.samples && "
        "hpckit report --from /other/kept.d"
    )
    assert said(moved, None)[-1] == f" next   {reads}"
    assert said(moved, KEPT)[-1] == f" next   cat {KEPT} >> {moved} && {reads}"


def test_what_is_nowhere_is_lost() -> None:
    """Without a file there is nothing to read."""
    assert said(None, None, is_lost=True) == [" lost   6 samples of 2 GPUs: no file has them"]
