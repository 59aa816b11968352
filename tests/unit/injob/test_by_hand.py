"""What `hpckit sample` says at its end."""

from __future__ import annotations

import pytest

from hpckit.sampler.main import Place, last_words

TARGET = "account/restart-0/node-n1.samples"
PATH = f"run/{TARGET}"
KEPT = "/tmp/hpckit-samples-0-1-a.samples"


SIX = "6 samples of 2 GPUs"
FOLDER = "/tmp/hpckit-samples-0-1-a.d"
MOVED = "/other/kept.samples"
READS = (
    "mkdir /other/kept.d && mv /other/kept.samples /other/kept.d/node-n1.samples && "
    "hpckit report --from /other/kept.d"
)


@pytest.mark.parametrize(
    ("reached", "kept", "lines"),
    [
        (PATH, None, [f" wrote  {SIX} · {PATH}", " next   hpckit report --from run"]),
        # Where a part arrived both files are said, and how they become one.
        (
            PATH,
            KEPT,
            [
                f" wrote  part of {SIX} · {PATH}",
                f" rest   {KEPT}",
                f" next   cat {KEPT} >> {PATH} && hpckit report --from run",
            ],
        ),
        # The file of this node gets a folder that can be read, and one that was renamed its name.
        (
            None,
            KEPT,
            [
                f" wrote  {SIX} · {KEPT}",
                f" next   mkdir {FOLDER} && mv {KEPT} {FOLDER}/node-n1.samples && "
                f"hpckit report --from {FOLDER}",
            ],
        ),
        (MOVED, None, [f" wrote  {SIX} · {MOVED}", f" next   {READS}"]),
        (None, None, [f" lost   {SIX}: in no file"]),
    ],
)
def test_where_samples_are(reached: str | None, kept: str | None, lines: list[str]) -> None:
    """Only what is where it belongs is whole; `next` is a command line that reads what there is."""
    place = Place("run", TARGET, reached, kept, is_lost=reached == kept)
    assert place.is_whole is (reached == PATH and kept is None)
    assert last_words(6, 2, "", place).splitlines() == lines
