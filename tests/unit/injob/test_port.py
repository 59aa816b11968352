"""The port verb: three candidates, of which the first that is free."""

from __future__ import annotations

import socket
import zlib
from contextlib import ExitStack
from pathlib import Path

import pytest

from hpckit.injob.port import ephemeral_range, is_free, job_number, port, port_candidates
from tests.unit.injob.conftest import Run

RANGE_FILE = "/proc/sys/net/ipv4/ip_local_port_range"


def candidates(job_id: str, array_task: int | None = None) -> tuple[int, int, int]:
    """The candidates on this machine."""
    return port_candidates(
        job_number(job_id), array_task=array_task, ephemeral=ephemeral_range(RANGE_FILE)
    )


def held(number: int, host: str = "") -> socket.socket:
    """A socket that listens on a port."""
    return socket.create_server((host, number), reuse_port=False)


def test_first_candidate_is_printed(run: Run) -> None:
    """The archive prints the job's first choice when it is free."""
    done = run("port", "--job-id", "771234")
    assert (done.returncode, done.stderr) == (0, b"")
    assert int(done.stdout) == candidates("771234")[0]


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_a_taken_port_is_passed_over(capsys: pytest.CaptureFixture[str], host: str) -> None:
    """A port somebody listens on, on one address or all, is not given out."""
    first, second, _ = candidates("771236")
    with held(first, host):
        assert port(["--job-id", "771236"]) == 0
    assert int(capsys.readouterr().out) == second


def test_a_port_taken_over_ipv6_is_passed_over() -> None:
    """A listener on IPv6 alone also takes the port."""
    number = candidates("771237")[0]
    try:
        listener = socket.create_server(("::1", number), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with listener:
        assert not is_free(number)
    assert is_free(number)


def test_no_free_candidate_names_all_three(run: Run) -> None:
    """When others hold all three, exit 1 with one sentence that names them."""
    with ExitStack() as holders:
        for number in candidates("771238"):
            holders.enter_context(held(number))
        done = run("port", "--job-id", "771238")
    assert (done.returncode, done.stdout) == (1, b"")
    listed = ", ".join(map(str, candidates("771238")))
    assert done.stderr.decode() == (
        f"hpckit: none of the job's three candidate ports is free on this host: {listed}\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--job-id", ""],
        ["--job-id", "1", "--array-task", "x"],
        ["--job-id", "1", "--color", "red"],
        ["--job-id", "1", "--array-task"],
    ],
)
def test_a_wrong_command_line_is_none(words: list[str]) -> None:
    """Anything but pairs of known options is no command line."""
    assert port(words) is None


@pytest.mark.parametrize("text", [None, "", "one two", "1 2 3", "15000\t64000\n"])
def test_an_unreadable_range_is_the_kernels_default(tmp_path: Path, text: str | None) -> None:
    """A file that is missing or odd gives the range that Linux starts with."""
    path = tmp_path / "ip_local_port_range"
    if text is not None:
        path.write_text(text)
    assert ephemeral_range(str(path)) == (
        (15000, 64000) if text and "\t" in text else DEFAULT_RANGE
    )


@pytest.mark.parametrize(("word", "array_task"), [("3", 3), ("", None)])
def test_an_array_task_shifts_the_choice(
    capsys: pytest.CaptureFixture[str], word: str, array_task: int | None
) -> None:
    """Tasks of an array have their own; a variable that Slurm did not set may be empty."""
    assert port(["--job-id", "local-a", "--array-task", word]) == 0
    assert int(capsys.readouterr().out) == candidates("local-a", array_task)[0]


DEFAULT_RANGE = (32768, 60999)


@pytest.mark.parametrize(
    ("ephemeral", "lowest", "highest"),
    [
        ((32768, 60999), 61000, 65535),
        ((1024, 64511), 64512, 65535),
        ((1024, 64512), 61000, 65535),
        ((32768, 65535), 10000, 32767),
        ((11024, 65535), 10000, 11023),
        ((11023, 65535), 1024, 11022),
        ((2048, 65535), 1024, 2047),
        ((2047, 65535), 61000, 65535),
        ((1, 500), 1024, 65535),
    ],
)
def test_pool_lies_above_then_below(ephemeral: tuple[int, int], lowest: int, highest: int) -> None:
    """The ports come from above the range, else from 10000 on, else from 1024 on, else 61000 on.

    With Linux's default range that is the rule of enroot's Slurm hook: 61000 + job id mod 4536.
    """
    size = highest - lowest + 1
    for job_id in (0, 1, size - 1):
        first, *_ = port_candidates(job_id, array_task=None, ephemeral=ephemeral)
        assert first == lowest + job_id


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("771234", 771234),
        ("local-1a2b", zlib.crc32(b"local-1a2b")),
        ("٣", zlib.crc32("٣".encode())),
        ("\udcff", zlib.crc32(b"\xff")),
    ],
)
def test_job_number_takes_any_text(text: str, number: int) -> None:
    """Decimal text is its number, any other text its CRC-32."""
    assert job_number(text) == number
