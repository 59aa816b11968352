"""A chain is submitted whole, or leaves nothing, or says what it has left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click import unstyle

from hpckit.cli.jobs import chain_document, chain_row
from hpckit.core.errors import (
    AdapterError,
    ConfigError,
    HpckitError,
    NotRecorded,
    PlanError,
    SchedulerRefused,
    StorageFailed,
    SubmissionUnconfirmed,
)
from hpckit.jobs.chain import StageStatus, chain_status, explained
from hpckit.jobs.draft import Caller, PackedJobFolders
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.source import JobSource
from hpckit.jobs.submit_chain import prepare_chain, submit_chain
from hpckit.slurm.values import JobId, JobState, JobStatus
from tests.fakes.job_index import TemporaryJobIndex
from tests.fakes.packed import PACKED
from tests.fakes.prepared import RESOURCES
from tests.fakes.tracked import RUNS, ToldSubmitter
from tests.fakes.world import World, caller_in, entry_of, tracking
from tests.unit.jobs.test_parts import Began, Slurm, held, ten_a_job
from tests.unit.spec.test_stages import CHAIN

THREE = (
    CHAIN + '[[stages]]\nname = "evaluate"\ncommand = ["e"]\nslurm = { dependency = "singleton" }\n'
)


NAMES = ("prepare", "train", "evaluate")


def a_source(**more: object) -> JobSource:
    """What the command line asks for."""
    source = JobSource(
        file_text=THREE,
        file_name="chain.toml",
        options={},
        option_words=(),
        command=(),
        site_name="docker",
        template=None,
        folder=Path("jobs"),
    )
    fields = {name: getattr(source, name) for name in source.__dataclass_fields__}
    return JobSource(**{**fields, **more})


def stages(home: Path, **more: object) -> list[PreparedJob]:
    """The three stages, whose folders are to lie below a home."""
    return [
        replace(one, site=replace(one.site, job_root=str(home / "jobs")))
        for one in prepare_chain(a_source(**more), RESOURCES)
    ]


def callers(home: Path) -> Sequence[Caller]:
    """The same somebody with three uuids."""
    return [replace(caller_in(home), uuid_hex=f"{number}" * 32) for number in range(3)]


def folders(home: Path) -> list[str]:
    """What lies below the job root."""
    return sorted(path.name for path in (home / "jobs").iterdir())


def test_a_machine_without_scheduler_refuses_a_chain() -> None:
    """There is nothing on site local that begins a job after another."""
    with pytest.raises(PlanError, match="no scheduler for chains") as caught:
        prepare_chain(a_source(site_name="local"), RESOURCES)
    assert "--stage prepare" in str(caught.value)


def test_a_name_on_the_command_line_is_the_chains() -> None:
    """`--name x` gives each stage a name of its own below x; other options are for all stages."""
    options = {"name": ("x", "--name"), "slurm.partition": ("debug", "--partition")}
    specs = [one.effective.spec for one in prepare_chain(a_source(options=options), RESOURCES)]
    assert [spec.name for spec in specs] == ["x-prepare", "x-train", "x-evaluate"]
    assert {spec.slurm.partition for spec in specs} == {"debug"}


def test_a_script_says_how_to_render_its_stage() -> None:
    """The header of a stage's script names the stage."""
    train = prepare_chain(a_source(), RESOURCES)[1]
    assert "hpckit render job.toml --stage train --site docker" in train.script.text


def test_each_stage_waits_for_the_one_before(tmp_path: Path) -> None:
    """Each stage but the first depends on the one before, beside its own dependency."""
    slurm = Slurm()
    submit_chain(stages(tmp_path), callers(tmp_path), ten_a_job(slurm).tools())
    assert [(one.dependency, one.ends_with_it) for one in slurm.requests] == [
        (None, False),
        ("afterok:4242", True),
        ("singleton,afterok:4243", True),
    ]


def test_a_stage_waits_for_every_part_of_an_array(tmp_path: Path) -> None:
    """After a split array the next stage depends on all of its parts."""
    slurm = Slurm()
    options = {"slurm.array": ("0-14", "--array")}
    submit_chain(stages(tmp_path, options=options), callers(tmp_path), ten_a_job(slurm).tools())
    assert [one.dependency for one in slurm.requests] == [
        *[None] * 2,
        *["afterok:4242:4243"] * 2,
        *["singleton,afterok:4244:4245"] * 2,
    ]


def test_the_jobs_of_a_chain_know_it(tmp_path: Path) -> None:
    """Index and intent hold the chain and the stage of each job."""
    world = ten_a_job(Slurm())
    done = submit_chain(stages(tmp_path), callers(tmp_path), world.tools())
    found = world.index.of_chain("0" * 32)
    assert [entry.stage for entry in found] == ["prepare", "train", "evaluate"]
    intent = world.folders.read_json(done[1].folder, "intent.json")
    assert (intent["stage"], intent["stages"]) == ("train", ["prepare", "train", "evaluate"])


def third_refused(slurm: Slurm, home: Path) -> World:
    """A world in which the third stage was refused, and the error was what a person expects."""
    world = ten_a_job(slurm)
    prepared = stages(home)
    options = {"slurm.array": ("10", "--array")}
    last = prepare_chain(a_source(options=options), RESOURCES)[2]
    prepared[2] = replace(last, site=prepared[2].site)
    with pytest.raises(SchedulerRefused, match=r"stage evaluate: .*earlier stages"):
        submit_chain(prepared, callers(home), world.tools())
    assert slurm.cancelled == [("4243",), ("4242",)]
    return world


def test_a_refused_stage_takes_back_the_others(tmp_path: Path) -> None:
    """When a later stage is refused, those before are cancelled, last first, and leave no trace."""
    world = third_refused(Slurm(SchedulerRefused("Slurm refused the job: no"), at=10), tmp_path)
    assert world.index.latest(None) == []
    assert folders(tmp_path) == []


def test_stages_that_had_begun_keep_their_record(tmp_path: Path) -> None:
    """When a later stage is refused, one that has begun is cancelled, and what it left stays."""
    refused = SchedulerRefused("Slurm refused the job: no")
    world = third_refused(Began(refused, at=10), tmp_path)
    assert len(world.index.latest(None)) == 2
    assert len(folders(tmp_path)) == 2
    assert refused.hint == "prepare and train had already started or ended: hpckit status 4243"


def test_a_stage_that_has_ended_meanwhile_keeps_its_record(tmp_path: Path) -> None:
    """A stage that is found to have ended when it is to be cancelled ran: what it left stays."""
    ended = HpckitError("job 4242 has already ended: COMPLETED")
    refused = SchedulerRefused("no")
    world = third_refused(Slurm(refused, at=10, cancelling=ended), tmp_path)
    assert len(world.index.latest(None)) == 2
    assert "unfinished earlier stages were cancelled" in str(refused)


def full_at(slurm: Slurm, number: int) -> PackedJobFolders:
    """Job folders without a place for what becomes of the numbered request."""

    class Full(PackedJobFolders):
        """No place for that record."""

        def write(self, folder: Path, name: str, content: str | bytes) -> None:
            """Be full."""
            if name == "submitted.json" and len(slurm.requests) == number:
                raise StorageFailed("no space left")
            super().write(folder, name, content)

    return Full(PACKED)


def test_a_stage_that_is_not_recorded_goes_on(tmp_path: Path) -> None:
    """When a stage was started and that cannot be written down, none before it is cancelled."""
    slurm = Slurm()
    world = replace(ten_a_job(slurm), folders=full_at(slurm, 2))
    with pytest.raises(NotRecorded, match=r"stage train: job 4243 was started .* later stages"):
        submit_chain(stages(tmp_path), callers(tmp_path), world.tools())
    assert slurm.cancelled == []


def split_in_the_middle(home: Path) -> list[PreparedJob]:
    """The three stages, the second an array of three parts."""
    prepared = stages(home)
    split = prepare_chain(a_source(options={"slurm.array": ("0-24", "--array")}), RESOURCES)[1]
    prepared[1] = replace(split, site=prepared[1].site)
    return prepared


def test_an_interrupt_in_a_split_stage_takes_back_all(tmp_path: Path) -> None:
    """After Ctrl-C between two parts of a stage neither it nor those before it are left."""
    slurm = Slurm()
    world = ten_a_job(slurm)
    tools = world.tools(lambda: held(lambda: len(slurm.requests) == 3))
    words = (
        r"stage train: not all parts were submitted .*part 3 of 3.* \(the earlier stages were canc"
    )
    with pytest.raises(KeyboardInterrupt, match=words):
        submit_chain(split_in_the_middle(tmp_path), callers(tmp_path), tools)
    assert slurm.cancelled == [("4243", "4244"), ("4242",)]
    assert (world.index.latest(None), folders(tmp_path)) == ([], [])


def test_an_interrupt_in_a_split_stage_that_goes_on_says_so(tmp_path: Path) -> None:
    """Where the parts cannot be cancelled, the stages before go on too, and no other is sent."""
    slurm = Slurm(cancelling=AdapterError("silence"))
    tools = ten_a_job(slurm).tools(lambda: held(lambda: len(slurm.requests) == 3))
    with pytest.raises(KeyboardInterrupt, match=r"hpckit cancel 4243 · later stages were not subm"):
        submit_chain(split_in_the_middle(tmp_path), callers(tmp_path), tools)
    assert len(slurm.requests) == 3


def test_a_split_stage_that_is_not_recorded_takes_back_all(tmp_path: Path) -> None:
    """When a later part cannot be written down, its stage and those before it are taken back."""
    slurm = Slurm()
    world = replace(ten_a_job(slurm), folders=full_at(slurm, 3))
    words = r"stage train: .*part 2 of 3.* \(the earlier stages"
    with pytest.raises(NotRecorded, match=words) as caught:
        submit_chain(split_in_the_middle(tmp_path), callers(tmp_path), world.tools())
    assert caught.value.hint is None
    assert slurm.cancelled == [("4243", "4244"), ("4242",)]
    assert (world.index.latest(None), folders(tmp_path)) == ([], [])


def test_a_failing_index_keeps_no_stage_from_being_cancelled(tmp_path: Path) -> None:
    """Where records cannot be removed, all stages are cancelled, and the refusal is told."""

    class Damaged(TemporaryJobIndex):
        """Cannot forget."""

        def remove(self, submission: str) -> None:
            """Be full."""
            raise StorageFailed("no space left")

    slurm = Slurm(SchedulerRefused("no"), at=10)
    world = replace(ten_a_job(slurm), index=Damaged())
    prepared = split_in_the_middle(tmp_path)
    with pytest.raises(SchedulerRefused, match=r"stage train: no .*earlier stages were canc"):
        submit_chain(prepared, callers(tmp_path), world.tools())
    assert slurm.cancelled == [("4243",), ("4242",)]


def test_an_interrupt_between_stages_takes_back_those_sent(tmp_path: Path) -> None:
    """After Ctrl-C no further stage is sent, those before are cancelled, and no trace is left."""
    slurm = Slurm()
    world = ten_a_job(slurm)
    tools = world.tools(lambda: held(lambda: len(slurm.requests) == 2))
    with pytest.raises(
        KeyboardInterrupt, match=r"stage evaluate was not submitted \(the earlier stages"
    ):
        submit_chain(stages(tmp_path), callers(tmp_path), tools)
    assert slurm.cancelled == [("4243",), ("4242",)]
    assert (world.index.latest(None), folders(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    ("key", "value"),
    [("slurm.dependency", "afterok:1?afterok:2"), ("slurm.array", "0-99999"), ("chdir", "typo")],
)
def test_what_can_be_known_of_a_stage_is_known_before_the_first(
    tmp_path: Path, key: str, value: str
) -> None:
    """A stage that cannot be submitted is refused before another has been."""
    slurm = Slurm()
    wrong = prepare_chain(a_source(options={key: (value, "--set")}), RESOURCES)[2]
    prepared = stages(tmp_path)
    prepared[2] = replace(wrong, site=prepared[2].site)
    with pytest.raises((ConfigError, PlanError)):
        submit_chain(prepared, callers(tmp_path), ten_a_job(slurm).tools())
    assert slurm.requests == []


def test_a_stage_that_is_forgotten_was_submitted(tmp_path: Path) -> None:
    """Of the stages without a record those before a known one ran, and those after it never did."""
    world = ten_a_job(Slurm())
    done = submit_chain(stages(tmp_path), callers(tmp_path), world.tools())
    for number in (0, 2):
        world.index.remove(done[number].entry.submission)
    chain = chain_status(done[1].entry, tracking(ToldSubmitter(RUNS), world.index))
    ((_, row),) = chain_row(chain)
    assert unstyle(row) == (
        "prepare (no longer on record) → train 4242 RUNNING → evaluate (not submitted)"
    )
    told = [(one["stage"], one["state"]) for one in chain_document(chain) or ()]
    assert told == [("prepare", "UNKNOWN"), ("train", "RUNNING"), ("evaluate", "NOT_SUBMITTED")]


def test_an_unconfirmed_stage_leaves_the_others(tmp_path: Path) -> None:
    """When the answer to the first stage is lost, it stays on record and no other is sent."""
    slurm = Slurm(SubmissionUnconfirmed("lost"))
    world = ten_a_job(slurm)
    with pytest.raises(SubmissionUnconfirmed, match="stage prepare: lost; later stages"):
        submit_chain(stages(tmp_path), callers(tmp_path), world.tools())
    (entry,) = world.index.latest(None)
    assert entry.stage == "prepare"
    chain = chain_status(entry, tracking(ToldSubmitter(RUNS), world.index))
    assert [one.state for one in chain.lines[1:]] == [JobState.NOT_SUBMITTED] * 2


def test_a_chain_is_one_question(tmp_path: Path) -> None:
    """The status of one stage is asked for together with that of the others."""
    world = ten_a_job(Slurm())
    done = submit_chain(stages(tmp_path), callers(tmp_path), world.tools())
    told = ToldSubmitter(RUNS)
    chain = chain_status(done[1].entry, tracking(told, world.index))
    assert told.asked == [["4242", "4243", "4244"]]
    assert (len(chain.stages), [one.name for one in chain.lines]) == (3, [*NAMES])
    assert chain.status_of(done[1].entry).state is JobState.RUNNING


OK, FAILED, GONE = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED


def a_chain(*states: JobState, began: tuple[int, ...] = ()) -> list[StageStatus]:
    """Stages s0, s1, … with the ids 40, 41, …; those in `began` have a start."""
    return [
        (
            replace(entry_of(str(40 + at), Path("/f")), chain="c", stage=f"s{at}"),
            JobStatus(
                job_id=JobId(str(40 + at)), state=state, started_s=1.0 if at in began else None
            ),
        )
        for at, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("chain", "reasons"),
    [
        (a_chain(OK, FAILED, GONE), [None, None, "not started: s1 (41) FAILED"]),
        (a_chain(GONE, GONE), [None, "not started: s0 (40) CANCELLED"]),
        (a_chain(FAILED, GONE, GONE), [None, *["not started: s0 (40) FAILED"] * 2]),
        (a_chain(OK, GONE), [None, None]),
        (a_chain(FAILED, GONE, began=(1,)), [None, None]),
    ],
)
def test_a_stage_that_did_not_begin_says_why(
    chain: list[StageStatus], reasons: list[str | None]
) -> None:
    """A stage that was cancelled unstarted after an earlier one failed names that one."""
    assert [status.reason for status in explained(chain)] == reasons
