"""What sbatch prints: an id, or why there is none."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.sbatch import (
    SbatchFailure,
    explain_refusal,
    parse_sbatch,
    refusal_words,
    sbatch_failure,
)
from tests.fakes.slurm_records import record_text

FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4242\n", ("4242", None)),
        ("4242;north\n\n", ("4242", "north")),
        ("job 7 will be charged\n7 credits\n4242\n", ("4242", None)),
    ],
)
def test_the_id_is_the_last_line(text: str, expected: tuple[str, str | None]) -> None:
    """A site's banner before the id is passed over."""
    assert parse_sbatch(text) == expected


@pytest.mark.parametrize("text", ["7\n4242\n", "4242\n42\n", "4242;north\n7\n"])
def test_two_ids_are_none(text: str) -> None:
    """Where two lines could be the id, neither is believed."""
    with pytest.raises(ParseError, match="several lines look like"):
        parse_sbatch(text)


def test_the_cluster_is_told_24_11() -> None:
    """With `-M`, sbatch names the cluster."""
    assert parse_sbatch(record_text("sbatch-24.11.5", "parsable-cluster")) == ("30", "hpckit")


@pytest.mark.parametrize(
    "text", ["", "\n", "Submitted batch job 4242", "4242\nbye", "0", "4242;", "4242;a b", "٤٢"]
)
def test_anything_else_is_an_error(text: str) -> None:
    """No id is guessed."""
    with pytest.raises(ParseError, match="sbatch --parsable"):
        parse_sbatch(text)


@pytest.mark.parametrize(
    ("tool", "case", "expected"),
    [
        ("sbatch-22.05.8", "controller-down", SbatchFailure.UNREACHABLE),
        ("sbatch-22.05.8", "controller-frozen", SbatchFailure.UNCONFIRMED),
        ("sbatch-22.05.8", "no-munge", SbatchFailure.UNREACHABLE),
        ("sbatch-22.05.8", "no-configuration", SbatchFailure.UNREACHABLE),
        ("sbatch-22.05.8", "unresolvable", SbatchFailure.UNREACHABLE),
        ("sbatch-22.05.8", "bad-partition", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "no-munge", SbatchFailure.UNREACHABLE),
        ("sbatch-24.11.5", "bad-account", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "bad-gres", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "bad-option", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "bad-partition", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "bad-qos", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "no-script", SbatchFailure.REFUSED),
        ("sbatch-24.11.5", "no-cluster", SbatchFailure.REFUSED),
    ],
)
def test_failures_that_were_seen(tool: str, case: str, expected: SbatchFailure) -> None:
    """Each captured failure is told for what it was."""
    assert sbatch_failure(record_text(tool, case)) is expected


@pytest.mark.parametrize(
    "cause",
    [
        "Unable to contact slurm controller (send failure)",
        "Unable to contact slurm controller (receive failure)",
        "Unable to contact slurm controller (shutdown failure)",
        "Socket timed out on send/recv operation",
        "Zero Bytes were transmitted or received",
        "Message send failure",
        "Message receive failure",
        "Unexpected message received",
        "Communication shutdown failure",
        "Protocol authentication error",
        "Header lengths are longer than data received",
        "Insane message length",
    ],
)
def test_a_request_that_may_have_arrived(cause: str) -> None:
    """Where the way to the controller or back failed, there may be a job; also when cut off."""
    assert sbatch_failure(FAILED + cause + "\n") is SbatchFailure.UNCONFIRMED
    assert sbatch_failure(f"sbatch: error: {cause}") is SbatchFailure.UNCONFIRMED


@pytest.mark.parametrize("cause", ["", "No error", "Unspecified error", "Connection reset by peer"])
def test_a_cause_that_says_nothing_is_not_certain(cause: str) -> None:
    """Without a cause nobody knows that the request did not arrive."""
    assert sbatch_failure(FAILED + cause) is SbatchFailure.UNCONFIRMED


@pytest.mark.parametrize(
    "stderr",
    [
        FAILED + "Unable to contact slurm controller (connect failure)",
        FAILED + "Slurm backup controller in standby mode",
        FAILED + "Controller is in standby mode, try a different controller",
        "sbatch: error: Unable to contact slurm controller (connect failure)",
        "sbatch: error: fetch_config: DNS SRV lookup failed\n"
        "sbatch: fatal: Could not establish a configuration source",
        "sbatch: error: failed to fetch remote configs: Zero Bytes were transmitted or received\n"
        "sbatch: fatal: Could not establish a configuration source",
        'sbatch: error: Unable to resolve "ctl"',
        "sbatch: error: Problem talking to database",
    ],
)
def test_a_request_that_was_never_sent(stderr: str) -> None:
    """Where sbatch found nobody to ask, there is no job."""
    assert sbatch_failure(stderr) is SbatchFailure.UNREACHABLE


def test_the_cause_outweighs_what_was_said_before() -> None:
    """An address that was not found says nothing once another one answered."""
    before = 'sbatch: error: Unable to resolve "ctl1"\n'
    timed_out = before + FAILED + "Socket timed out on send/recv operation"
    assert sbatch_failure(timed_out) is SbatchFailure.UNCONFIRMED
    assert sbatch_failure(before + FAILED + "Invalid qos specification") is SbatchFailure.REFUSED


@pytest.mark.parametrize(
    "stderr",
    [
        FAILED + "Rate limit exceeded, please retry later",
        FAILED + "Resource temporarily unavailable",
        "sbatch: error: cli_filter plugin terminated with error",
    ],
)
def test_every_other_text_is_a_refusal(stderr: str) -> None:
    """Whatever the controller or a plugin answered, it made no job."""
    assert sbatch_failure(stderr) is SbatchFailure.REFUSED


@pytest.mark.parametrize(
    ("returncode", "stdout", "stderr"),
    [
        (137, "", ""),
        (137, "", "sbatch: error: Invalid qos specification\n"),
        (1, "", ""),
        (1, "4242\n", "audit: the hook failed\n"),
        (1, "welcome\n4242;north\n", "sbatch: error: late\n"),
        (1, "", "audit: the hook failed\n"),
    ],
)
def test_what_did_not_end_by_itself_may_have_left_a_job(
    returncode: int, stdout: str, stderr: str
) -> None:
    """An sbatch that a signal ended, that printed an id, or whose words are not its own."""
    failure = sbatch_failure(stderr, returncode=returncode, stdout=stdout)
    assert failure is SbatchFailure.UNCONFIRMED


def test_an_option_that_sbatch_does_not_take_is_a_refusal() -> None:
    """It ends with 255 then, which no signal gives; with words of ssh alone it may be a job."""
    bad = record_text("sbatch-24.11.5", "bad-option")
    assert sbatch_failure(bad, returncode=255) is SbatchFailure.REFUSED
    lost = "client_loop: send disconnect: Broken pipe\n"
    assert sbatch_failure(lost, returncode=255) is SbatchFailure.UNCONFIRMED


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            "bad-partition",
            "invalid partition specified: nosuch\n"
            "Batch job submission failed: Invalid partition name specified",
        ),
        ("bad-option", "unrecognized option '--nosuch'"),
        ("no-script", "Unable to open file nosuch.sh"),
    ],
)
def test_slurms_words_for_people(case: str, words: str) -> None:
    """The prefix of each line and the hint on usage are left out."""
    assert refusal_words(record_text("sbatch-24.11.5", case)) == words


def test_words_are_not_repeated() -> None:
    """A line is said once, the failed submission is said once, and a filter's words are kept."""
    stderr = (
        "sbatch: lua: project proj1 is over its budget\n"
        "sbatch: error: ask your PI\nsbatch: error: ask your PI\n\n"
        f"{FAILED}Unspecified error\n{FAILED}Job violates accounting/QOS policy\n"
    )
    assert refusal_words(stderr).split("\n") == [
        "lua: project proj1 is over its budget",
        "ask your PI",
        "Batch job submission failed: Unspecified error",
        "Job violates accounting/QOS policy",
    ]


REFUSED = "Batch job submission failed: "


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "invalid partition specified: nope\n" + REFUSED + "Invalid partition name specified",
            "sinfo",
        ),
        (REFUSED + "Invalid account or account/partition combination specified", "sacctmgr"),
        (REFUSED + "Invalid qos specification", "sacctmgr"),
        (REFUSED + "Requested node configuration is not available", "sinfo"),
        (REFUSED + "Requested reservation is invalid", "scontrol show reservation"),
        (REFUSED + "Job dependency problem", "afterok"),
        (REFUSED + "Invalid job array specification", "MaxArraySize"),
    ],
)
def test_a_refusal_says_where_to_look(words: str, told: str) -> None:
    """Slurm's commonest refusals come with the command that shows what there is."""
    assert told in str(explain_refusal(words))


def test_a_limit_is_explained() -> None:
    """A limit that Slurm names by its word is explained."""
    words = "QOSMaxGRESPerUser\n" + REFUSED + "Job violates accounting/QOS policy"
    assert str(explain_refusal(words)).startswith("request less, or use another QOS or account: ")


@pytest.mark.parametrize("words", ["", REFUSED + "Unspecified error", "welcome"])
def test_other_words_speak_for_themselves(words: str) -> None:
    """Where only Slurm's words tell, nothing is added."""
    assert explain_refusal(words) is None
