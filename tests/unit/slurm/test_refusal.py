"""A refusal comes with what would help."""

from __future__ import annotations

import pytest

from hpckit.slurm.sbatch import explain_refusal

FAILED = "Batch job submission failed: "


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "invalid partition specified: nope\n" + FAILED + "Invalid partition name specified",
            "sinfo",
        ),
        (FAILED + "Invalid account or account/partition combination specified", "sacctmgr"),
        (FAILED + "Invalid qos specification", "sacctmgr"),
        (FAILED + "Requested node configuration is not available", "sinfo"),
        (FAILED + "Requested reservation is invalid", "scontrol show reservation"),
        (FAILED + "Job dependency problem", "afterok"),
        (FAILED + "Invalid job array specification", "MaxArraySize"),
    ],
)
def test_a_refusal_says_where_to_look(words: str, told: str) -> None:
    """Slurm's commonest refusals come with the command that shows what there is."""
    assert told in str(explain_refusal(words))


def test_a_limit_is_explained() -> None:
    """A limit that Slurm names by its word is explained."""
    words = "QOSMaxGRESPerUser\n" + FAILED + "Job violates accounting/QOS policy"
    assert str(explain_refusal(words)).startswith("ask for less, or another QOS or account: ")


@pytest.mark.parametrize("words", ["", FAILED + "Unspecified error", "welcome"])
def test_other_words_speak_for_themselves(words: str) -> None:
    """Where only Slurm's words tell, nothing is added."""
    assert explain_refusal(words) is None
