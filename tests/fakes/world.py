"""What a submission meets in a test: real job folders, and fakes for all else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpckit.fabric.ask import FabricProbe
from hpckit.jobs.draft import Caller, PackedJobFolders
from hpckit.jobs.index import SqliteJobIndex
from hpckit.jobs.parts import Submitter
from hpckit.jobs.submit import SubmitTools
from hpckit.jobs.track import TrackTools
from hpckit.slurm.values import JobEntry, JobId, JobState
from tests.fakes.clock import FakeClock
from tests.fakes.job_index import TemporaryJobIndex
from tests.fakes.packed import PACKED
from tests.fakes.submitter import FakeSubmitter


@contextmanager
def nothing_held() -> Iterator[Callable[[], bool]]:
    """No signal comes in these tests."""
    yield lambda: False


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The parts of a test that a submission was given, to look at afterwards."""

    submitter: FakeSubmitter = field(default_factory=FakeSubmitter)
    folders: PackedJobFolders = field(default_factory=lambda: PackedJobFolders(PACKED))
    index: TemporaryJobIndex = field(default_factory=TemporaryJobIndex)
    clock: FakeClock = field(default_factory=FakeClock)
    probe: FabricProbe | None = None

    def tools(
        self,
        interrupts_held: Callable[[], AbstractContextManager[Callable[[], bool]]] = nothing_held,
    ) -> SubmitTools:
        """What `submit` uses."""
        return SubmitTools(
            submitter=self.submitter,
            folders=self.folders,
            index=self.index,
            clock=self.clock,
            interrupts_held=interrupts_held,
            probe=self.probe,
        )


def tracking(
    submitter: Submitter,
    index: SqliteJobIndex | None = None,
    clock: FakeClock | None = None,
    folders: PackedJobFolders | None = None,
) -> TrackTools:
    """What tracking uses: one submitter for every job, real folders."""
    return TrackTools(
        submitter_of=lambda _: submitter,
        index=TemporaryJobIndex() if index is None else index,
        folders=folders or PackedJobFolders(),
        clock=clock or FakeClock(),
    )


def caller_in(
    home: Path, *, environment: Mapping[str, str] | None = None, workdir: Path | None = None
) -> Caller:
    """Somebody whose home is `home`; the job id will be L0123abcd."""
    return Caller(
        environment=environment or {},
        workdir=workdir or home,
        home=home,
        python="/usr/bin/python3",
        uuid_hex="0123abcd" + "0" * 24,
        host="login1",
        pid=1,
        pid_started_s=0.0,
    )


def entry_of(
    job_id: str,
    folder: Path,
    state: JobState = JobState.PENDING,
    *,
    exit_code: int | None = None,
    created_s: float = 0.0,
    submission: str | None = None,
) -> JobEntry:
    """A line of the index; without a uuid of its own it has one of its job id."""
    return JobEntry(
        submission=submission or job_id.encode().hex().ljust(32, "0"),
        job_id=JobId(job_id),
        name="train",
        site="local",
        folder=str(folder),
        created_s=created_s,
        state=state,
        exit_code=exit_code,
    )


def everything_in(folder: Path) -> list[str]:
    """The paths of all that lies below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
