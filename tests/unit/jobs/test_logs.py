"""The output of a job, whole or as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpckit.core.errors import HpckitError, StorageFailed
from hpckit.jobs.logs import FileJobLogs, RankLabels, follow_logs, labelled_lines, read_log
from hpckit.spec.job_folder import LogName
from tests.fakes.clock import FakeClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job folder without a log."""
    (tmp_path / "logs").mkdir()
    return tmp_path


class _GrowingJob(FakeClock):
    """A job that does the next of its steps in every pause, and has ended after the last."""

    def __init__(self, log: Path, steps: list[bytes]) -> None:
        super().__init__()
        self._log = log
        self._steps = steps

    def sleep(self, seconds: float) -> None:
        """Do a step."""
        super().sleep(seconds)
        with self._log.open("ab") as file:
            file.write(self._steps.pop(0))

    def has_ended(self) -> bool:
        """Whether nothing more is written."""
        return not self._steps


def followed_log(
    folder: Path,
    clock: FakeClock,
    has_ended: Callable[[], bool],
    logs: FileJobLogs | None = None,
    *,
    poll_interval_s: float = 1.0,
) -> Iterator[bytes]:
    """What following the log of job 46 gives, without back-off."""
    pieces = follow_logs(
        logs or FileJobLogs(),
        [LogName(folder=folder)],
        clock,
        job_id="46",
        poll_interval_s=poll_interval_s,
        back_off=False,
        has_ended=has_ended,
    )
    return (chunk for _, chunk in pieces)


def test_a_growing_log_is_given_once(folder: Path) -> None:
    """Following gives every byte once and in order, from before the log is there to its end."""
    job = _GrowingJob(folder / "logs" / "job.log", [b"a\n", b"", b"b\xff", b"\nc"])
    chunks = followed_log(folder, job, job.has_ended, poll_interval_s=0.5)
    assert list(chunks) == [b"a\n", b"b\xff", b"\nc"]
    assert job.slept_s == [0.5] * 4


def followed_from(
    folder: Path, has_ended: Callable[[], bool] = lambda: False
) -> tuple[Path, Iterator[bytes]]:
    """A log of two lines that were given already, and what follows it."""
    path = folder / "logs" / "job.log"
    path.write_bytes(b"a\nb\n")
    chunks = followed_log(folder, FakeClock(), has_ended)
    assert next(chunks) == b"a\nb\n"
    return path, chunks


def test_a_log_that_was_cut_is_given_from_its_beginning(folder: Path) -> None:
    """What comes then begins with a whole line."""
    path, chunks = followed_from(folder)
    path.write_bytes(b"c\n")
    assert next(chunks) == b"c\n"


def test_a_log_that_was_cut_and_grew_loses_nothing(folder: Path) -> None:
    """Once it was seen to be empty all of it is given, however long it is at the next look."""
    looks = iter([b"a\nb\n", b"", b"c\nd\ne\nf\n"])

    def looked() -> bool:
        content = next(looks, None)
        if content is not None:
            (folder / "logs" / "job.log").write_bytes(content)
        return content is None

    assert list(followed_log(folder, FakeClock(), looked)) == [b"a\nb\n", b"c\nd\ne\nf\n"]


def test_a_log_that_is_gone_is_said(folder: Path) -> None:
    """One of which something was given is not one that never was."""
    path, chunks = followed_from(folder, lambda: not (folder / "logs" / "job.log").exists())
    path.unlink()
    with pytest.raises(HpckitError, match=r"the log is gone: .*job.log"):
        next(chunks)


class _FailingLogs(FileJobLogs):
    """Logs that cannot be read at the looks that are named, from 0 on."""

    def __init__(self, looks: range) -> None:
        self._looks = looks
        self._look = -1

    def size_bytes(self, log: LogName) -> int | None:
        """Fail where that is the look for it."""
        self._look += 1
        if self._look in self._looks:
            raise StorageFailed("job.log cannot be read: Stale file handle")
        return super().size_bytes(log)


@pytest.mark.parametrize("failing", [range(1, 29), range(1, 32)])
def test_a_log_that_cannot_be_read_may_come_back(folder: Path, failing: range) -> None:
    """Half a minute is waited for a file system; what was written meanwhile is given then."""
    path = folder / "logs" / "job.log"
    path.write_bytes(b"a\n")
    clock = FakeClock()
    begun_s = clock.now_s()

    def has_ended() -> bool:
        if clock.now_s() > begun_s:
            path.write_bytes(b"a\nb\n")
        return clock.now_s() > begun_s + 40.0

    chunks = followed_log(folder, clock, has_ended, _FailingLogs(failing))
    assert next(chunks) == b"a\n"
    if len(failing) < 30:
        assert next(chunks) == b"b\n"
    else:
        with pytest.raises(StorageFailed, match="Stale"):
            next(chunks)


def test_a_log_that_cannot_be_read_at_the_end_is_said(folder: Path) -> None:
    """Nothing comes after it."""
    chunks = followed_log(folder, FakeClock(), lambda: True, _FailingLogs(range(1)))
    with pytest.raises(StorageFailed, match="Stale"):
        next(chunks)


def test_what_is_written_before_the_end_is_noticed_is_given(folder: Path) -> None:
    """The last look at the log comes after the question whether the job has ended."""

    def ends_with_words() -> bool:
        (folder / "logs" / "job.log").write_bytes(b"last words")
        return True

    chunks = followed_log(folder, FakeClock(), ends_with_words)
    assert list(chunks) == [b"last words"]


def test_a_job_that_ended_without_a_log_is_said(folder: Path) -> None:
    """Following the log of a job that ended without one is refused, not endless."""
    chunks = followed_log(folder, FakeClock(), lambda: True)
    with pytest.raises(HpckitError, match="the job has no log in"):
        list(chunks)


@pytest.mark.parametrize(
    ("ranks", "there"),
    [
        ((), "no rank has written a log yet"),
        ((0,), "only rank 0 has a log"),
        ((0, 1, 3), "ranks with a log: 0-3"),
    ],
)
def test_a_missing_rank_names_those_that_are_there(
    folder: Path, ranks: tuple[int, ...], there: str
) -> None:
    """The log of a rank that has none is refused, and the ranks that have one are named."""
    for rank in ranks:
        (folder / "logs" / f"rank-{rank}.log").touch()
    with pytest.raises(HpckitError, match="rank 7 has no log") as raised:
        read_log(FileJobLogs(), LogName(folder=folder, rank=7), "46")
    assert raised.value.hint == there


class _Asked:
    """The answer that a job runs until `end_s` by the clock, and when it was asked for."""

    def __init__(self, clock: FakeClock, end_s: float) -> None:
        self._clock = clock
        self._end_s = clock.now_s() + end_s
        self._begun_s = clock.now_s()
        self.at_s: list[float] = []

    def __call__(self) -> bool:
        """Whether the job has ended."""
        self.at_s.append(self._clock.now_s() - self._begun_s)
        return self._clock.now_s() >= self._end_s


def followed(folder: Path, end_s: float, *, poll_interval_s: float, back_off: bool) -> _Asked:
    """Follow the log of a job of `end_s` seconds: the questions, at the seconds they came."""
    (folder / "logs" / "job.log").touch()
    clock = FakeClock()
    asked = _Asked(clock, end_s)
    chunks = follow_logs(
        FileJobLogs(),
        [LogName(folder=folder)],
        clock,
        job_id="46",
        poll_interval_s=poll_interval_s,
        back_off=back_off,
        has_ended=asked,
    )
    assert list(chunks) == []
    assert set(clock.slept_s) == {min(poll_interval_s, 1.0)}
    return asked


def test_a_log_is_read_every_second(folder: Path) -> None:
    """The file is read each second, whatever the interval at which a scheduler is asked."""
    asked = followed(folder, 45.0, poll_interval_s=15.0, back_off=False)
    assert asked.at_s == [0.0, 15.0, 30.0, 45.0]


def test_a_scheduler_is_asked_at_the_pace_of_a_wait(folder: Path) -> None:
    """With back-off, following a log for 600 s asks at most 35 times whether the job has ended."""
    asked = followed(folder, 600.0, poll_interval_s=1.0, back_off=True)
    assert len(asked.at_s) <= 35
    assert asked.at_s[-1] < 600.0 + 120.0


def test_a_line_is_given_before_the_next_question(folder: Path) -> None:
    """What a job writes between two questions is given within a second."""
    job = _GrowingJob(folder / "logs" / "job.log", [b"a", b"b", b"c"])
    asked = _Asked(job, 3.0)
    chunks = followed_log(folder, job, asked, poll_interval_s=3.0)
    assert list(chunks) == [b"a", b"b", b"c"]
    assert asked.at_s == [0.0, 3.0]


def test_the_log_of_a_task_is_read(folder: Path) -> None:
    """A task of an array has a merged log and ranks of its own."""
    (folder / "logs" / "array-7").mkdir()
    (folder / "logs" / "job-7.log").write_bytes(b"seven")
    (folder / "logs" / "array-7" / "rank-1.log").write_bytes(b"one")
    logs = FileJobLogs()
    assert b"".join(read_log(logs, LogName(folder=folder, task=7), "46")) == b"seven"
    assert b"".join(read_log(logs, LogName(folder=folder, task=7, rank=1), "46")) == b"one"


LOGS = FileJobLogs()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The folder of the logs of the job in `tmp_path`."""
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def test_ranks_are_numbers_in_order(tmp_path: Path, logs: Path) -> None:
    """Ranks come in the order of their numbers, and other files are not ranks."""
    for name in ("rank-10.log", "rank-9.log", "rank-x.log", "rank-1.log.gz", "rank-٣.log"):
        (logs / name).touch()
    assert LOGS.ranks(tmp_path) == [9, 10]
    assert LOGS.ranks(tmp_path / "gone") == []


def test_a_log_exists_or_not(tmp_path: Path, logs: Path) -> None:
    """The merged log and that of a rank are told apart, and a folder is no log."""
    (logs / "job.log").touch()
    (logs / "rank-1.log").mkdir()
    assert LOGS.size_bytes(LogName(folder=tmp_path)) is not None
    assert LOGS.size_bytes(LogName(folder=tmp_path, rank=0)) is None
    assert LOGS.size_bytes(LogName(folder=tmp_path, rank=1)) is None


def test_a_log_is_read_from_an_offset(tmp_path: Path, logs: Path) -> None:
    """Reading begins at the offset, gives large logs in chunks, and nothing beyond the end."""
    data = bytes(range(256)) * 1000
    (logs / "job.log").write_bytes(data)
    chunks = list(LOGS.read(LogName(folder=tmp_path), 5))
    assert len(chunks) > 1
    assert b"".join(chunks) == data[5:]
    assert list(LOGS.read(LogName(folder=tmp_path), len(data) + 9)) == []


def test_a_log_that_cannot_be_opened_is_not_one_that_is_not_there(
    tmp_path: Path, logs: Path
) -> None:
    """Whatever is wrong but its absence is a StorageFailed with the system's words."""
    (logs / "job.log").symlink_to("job.log")
    with pytest.raises(StorageFailed, match=r"job\.log cannot be read: Too many levels"):
        LOGS.size_bytes(LogName(folder=tmp_path))


def test_a_tail_is_the_last_lines_that_say_something(tmp_path: Path, logs: Path) -> None:
    """Blank lines are passed over, bytes that are no text are shown, and no log is no line."""
    (logs / "job.log").write_bytes(b"x" * 9000 + b"\none\n\n \ntw\xffo\n\n")
    assert LOGS.tail(LogName(folder=tmp_path), 2) == ["one", "tw�o"]
    assert LOGS.tail(LogName(folder=tmp_path, rank=7), 2) == ()


def test_tasks_are_numbers_in_order(tmp_path: Path, logs: Path) -> None:
    """The tasks of a job array are those with a merged log; the job's own log is no task's."""
    for name in ("job.log", "job-10.log", "job-9.log", "job-x.log", "rank-3.log"):
        (logs / name).touch()
    (logs / "array-4").mkdir()
    assert LOGS.tasks(tmp_path) == [9, 10]
    assert LOGS.tasks(tmp_path / "gone") == []


def test_a_task_of_a_part_goes_by_its_number_in_the_whole(tmp_path: Path, logs: Path) -> None:
    """The merged log of a task lies under the offset of its part, and is found by the sum."""
    for offset in ("", "-101", "-202"):
        (tmp_path / f"submission-{'a' * 32}{offset}.sbatch").touch()
    for name in ("job-7.log", "job-101+49.log", "job-202+0.log"):
        (logs / name).write_text(name)
    assert LOGS.tasks(tmp_path) == [7, 150, 202]
    for task in (7, 150, 202):
        assert LOGS.size_bytes(LogName(folder=tmp_path, task=task)) is not None
    assert LOGS.path(LogName(folder=tmp_path, task=201)) == logs / "job-101+100.log"


def test_each_task_has_its_own_ranks(tmp_path: Path, logs: Path) -> None:
    """The ranks of a task lie in its own folder, and are not those of the job or another task."""
    (logs / "rank-0.log").touch()
    for task, rank in ((7, 1), (7, 2), (8, 3)):
        (logs / f"array-{task}").mkdir(exist_ok=True)
        (logs / f"array-{task}" / f"rank-{rank}.log").write_text(f"{task}.{rank}\n")
    assert LOGS.ranks(tmp_path, 7) == [1, 2]
    assert LOGS.ranks(tmp_path, 9) == []
    assert LOGS.ranks(tmp_path) == [0]
    assert LOGS.tail(LogName(folder=tmp_path, rank=3, task=8), 1) == ["8.3"]
    assert LOGS.size_bytes(LogName(folder=tmp_path, rank=3, task=7)) is None


def test_a_long_tail_is_whole(folder: Path) -> None:
    """So many last lines are given as are asked for, however long the log is."""
    lines = [f"line {number}" for number in range(2000)]
    (folder / "logs" / "job.log").write_text("\n".join(lines))
    tail = FileJobLogs().tail(LogName(folder=folder), 1500)
    assert list(tail) == lines[-1500:]


def test_each_line_has_its_rank(folder: Path) -> None:
    """In the order of the merged log, of equal lines one each; a line of none has no rank."""
    of_rank = {0: ["a", "same", "b"], 1: ["c", "same", "d", "late"]}
    for rank, lines in of_rank.items():
        (folder / "logs" / f"rank-{rank}.log").write_text("".join(f"{one}\n" for one in lines))
    merged = b"script\nc\na\nsame\nsame\nb\nhalf a li"
    logs = FileJobLogs()
    paths = {rank: logs.path(LogName(folder=folder, rank=rank)) for rank in of_rank}

    log = LogName(folder=folder)
    pieces = [(log, chunk) for chunk in (merged[:9], merged[9:], b"ne\nlate")]
    told = b"".join(labelled_lines(pieces, RankLabels(paths))).decode()
    expected = "   script\n1: c\n0: a\n1: same\n0: same\n0: b\n   half a line\n"
    assert told.replace("late", "") == expected + "   "


def test_ranks_that_are_followed_keep_their_lines(folder: Path) -> None:
    """Each from its own file: none is lost, and none is mixed with another's."""
    steps = {0: [b"a", b"b\n", b""], 1: [b"c\n", b"d", b"e"]}
    clock = FakeClock()

    def has_ended() -> bool:
        for rank, pieces in steps.items():
            with (folder / "logs" / f"rank-{rank}.log").open("ab") as file:
                file.write(pieces.pop(0))
        return not steps[0]

    names = [LogName(folder=folder, rank=rank) for rank in steps]
    pieces = follow_logs(
        LOGS, names, clock, job_id="46", poll_interval_s=1.0, back_off=False, has_ended=has_ended
    )
    told = b"".join(labelled_lines(pieces, None, width=2)).decode()
    assert told == "1: c\n0: ab\n1: de\n"


@pytest.mark.parametrize("ends", ["\n", "\n\n", ""])
@pytest.mark.parametrize("count", [1, 3, 900, 3000])
def test_a_tail_begins_where_its_lines_do(folder: Path, ends: str, count: int) -> None:
    """Blank lines count, and the last line need not end."""
    text = "".join(f"line {number}\n\n" for number in range(1000)).rstrip("\n") + ends
    (folder / "logs" / "job.log").write_text(text)
    tail = text[LOGS.tail_offset(LogName(folder=folder), count) :]
    assert tail == "".join(text.splitlines(keepends=True)[-count:])


def test_ranks_that_begin_while_a_log_is_followed_have_labels(tmp_path: Path) -> None:
    """Whoever follows from before the ranks began sees which rank wrote what."""
    paths = {rank: tmp_path / f"rank-{rank}.log" for rank in (0, 1)}

    def pieces() -> Iterator[tuple[LogName, bytes]]:
        yield LogName(folder=tmp_path), b"script\n"
        for rank, path in paths.items():
            path.write_text(f"step {rank}\n")
        yield LogName(folder=tmp_path), b"step 0\nstep 1\n"

    labels = RankLabels({}, lambda: {rank: path for rank, path in paths.items() if path.exists()})
    assert b"".join(labelled_lines(pieces(), labels)) == b"script\n0: step 0\n1: step 1\n"
