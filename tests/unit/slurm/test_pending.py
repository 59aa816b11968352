"""Slurm's reasons for a job that waits, in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.slurm.pending import PendingExplanation, explain_pending

UNKNOWN = "unknown to hpckit"

# Each string of job_state_reason.c (of slurm_protocol_defs.c before 23.11) in 22.05.9, 23.02.8,
# 23.11.9, 24.05.8, 24.11.7, 25.05.8, 25.11.7 and 26.05.3.
_SOURCE = """
AccountNotAllowed AccountingPolicy AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling
AssocGrpBillingMinutes AssocGrpBillingRunMinutes AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit
AssocGrpCpuLimit AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocGrpGRES
AssocGrpGRESMinutes AssocGrpGRESRunMinutes AssocGrpJobsLimit AssocGrpLicense AssocGrpLicenseMinutes
AssocGrpLicenseRunMinutes AssocGrpMemLimit AssocGrpMemMinutes AssocGrpMemRunMinutes
AssocGrpNodeLimit AssocGrpNodeMinutes AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit AssocGrpUnknown
AssocGrpUnknownMinutes AssocGrpUnknownRunMinutes AssocGrpWallLimit AssocMaxBBMinutesPerJob
AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingMinutesPerJob AssocMaxBillingPerJob
AssocMaxBillingPerNode AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit AssocMaxCpuPerNode
AssocMaxEnergyMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode AssocMaxGRESMinutesPerJob
AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxJobsLimit AssocMaxLicenseMinutesPerJob
AssocMaxLicensePerJob AssocMaxMemMinutesPerJob AssocMaxMemPerJob AssocMaxMemPerNode
AssocMaxNodeMinutesPerJob AssocMaxNodePerJobLimit AssocMaxSubmitJobLimit
AssocMaxUnknownMinutesPerJob AssocMaxUnknownPerJob AssocMaxUnknownPerNode
AssocMaxWallDurationPerJobLimit AssociationJobLimit AssociationResourceLimit AssociationTimeLimit
BadConstraints BeginTime BlockFreeAction BlockMaxError BurstBufferOperation BurstBufferResources
BurstBufferStageIn Cleaning Constraints DeadLine Dependency DependencyNeverSatisfied FedJobLock
FrontEndDown InactiveLimit InvalidAccount InvalidQOS JobArrayTaskLimit JobHeldAdmin JobHeldUser
JobHoldMaxRequeue JobLaunchFailure Licenses MaxBBPerAccount MaxBBRunMinsPerAccount
MaxBBRunMinsPerUser MaxBillingPerAccount MaxBillingRunMinsPerAccount MaxBillingRunMinsPerUser
MaxCpuPerAccount MaxCpuRunMinsPerAccount MaxCpuRunMinsPerUser MaxEnergyPerAccount
MaxEnergyRunMinsPerAccount MaxEnergyRunMinsPerUser MaxGRESPerAccount MaxGRESRunMinsPerAccount
MaxGRESRunMinsPerUser MaxJobsPerAccount MaxLicensePerAccount MaxLicenseRunMinsPerAccount
MaxLicenseRunMinsPerUser MaxMemPerLimit MaxMemoryPerAccount MaxMemoryRunMinsPerAccount
MaxMemoryRunMinsPerUser MaxNodePerAccount MaxNodeRunMinsPerAccount MaxNodeRunMinsPerUser
MaxPoweredUpNodes MaxSubmitJobsPerAccount MaxUnknownPerAccount MaxUnknownRunMinsPerAccount
MaxUnknownRunMinsPerUser MpiPortsBusy NodeDown NonZeroExitCode None NvidiaImexChannels OutOfMemory
PartitionConfig PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit PowerNotAvail
PowerReserved Priority Prolog QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSGrpBilling
QOSGrpBillingMinutes QOSGrpBillingRunMinutes QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit
QOSGrpCpuLimit QOSGrpEnergy QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESMinutes
QOSGrpGRESRunMinutes QOSGrpJobsLimit QOSGrpLicense QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes
QOSGrpMemLimit QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpNodeMinutes
QOSGrpNodeRunMinutes QOSGrpSubmitJobsLimit QOSGrpUnknown QOSGrpUnknownMinutes
QOSGrpUnknownRunMinutes QOSGrpWallLimit QOSJobLimit QOSMaxBBPerJob QOSMaxBBPerNode QOSMaxBBPerUser
QOSMaxBillingMinutesPerJob QOSMaxBillingPerJob QOSMaxBillingPerNode QOSMaxBillingPerUser
QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxCpuPerUserLimit
QOSMaxEnergyMinutesPerJob QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxEnergyPerUser
QOSMaxGRESMinutesPerJob QOSMaxGRESPerJob QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxJobsPerUserLimit
QOSMaxLicenseMinutesPerJob QOSMaxLicensePerJob QOSMaxLicensePerUser QOSMaxMemoryMinutesPerJob
QOSMaxMemoryPerJob QOSMaxMemoryPerNode QOSMaxMemoryPerUser QOSMaxNodeMinutesPerJob
QOSMaxNodePerJobLimit QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit QOSMaxUnknownMinutesPerJob
QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxUnknownPerUser QOSMaxWallDurationPerJobLimit QOSMinBB
QOSMinBilling QOSMinCpuNotSatisfied QOSMinEnergy QOSMinGRES QOSMinLicense QOSMinMemory QOSMinNode
QOSMinUnknown QOSNotAllowed QOSResourceLimit QOSTimeLimit QOSUsageThreshold RaisedSignal
ReqNodeNotAvail Reservation ReservationDeleted ReservationInvalid Resources SchedDefer SystemFailure
TimeLimit
"""
WORDS = _SOURCE.split()

# What slurmctld writes in the place of the word: acct_policy.c, job_mgr.c, job_scheduler.c,
# node_scheduler.c, partition_mgr.c, read_config.c, reservation.c, the burst buffers, slurm_errno.c.
SENTENCES = [
    "ReqNodeNotAvail, UnavailableNodes:c1,c2",
    "ReqNodeNotAvail, UnavailableNodes:c[1-2,5]",
    "ReqNodeNotAvail, May be reserved for other job",
    "ReqNodeNotAvail, Reserved for maintenance",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "Nodes required for job are DOWN, DRAINED, REBOOTING or reserved for jobs in higher priority "
    "partitions",
    "launch failed requeued held",
    "launch failure limit exceeded requeued held",
    "user env retrieval failed requeued held",
    "job requeued in held state",
    "job requeued in special exit state",
    "uid 1000 not in group permitted to use this partition (gpu). groups allowed: a,b",
    "Job's account not permitted to use this partition (gpu allows a not b)",
    "Job's QOS not permitted to use this partition (gpu denies a,b including a)",
    "Job's QOS not known, so it can't use this partition (gpu allows a)",
    "License request 'ansys:4' is no longer valid, holding job",
    "Reservation course was deleted",
    "Reservation course is invalid",
    "Reservation course, which this job was running under, has ended",
    "burst_buffer/datawarp: setup: no space",
    "burst_buffer/lua: JobHeldAdmin: slurm_bb_data_in failed: no space",
    "burst_buffer/lua: Stage-out in progress",
    "Burst buffer pre_run error",
    "Error managing persistent burst buffers",
    "RaisedSignal:9(Killed)",
    "Job is at or exceeds QOS long's group wall limit of 600 with 601",
    "Requested topology configuration is not available",
    "Required nodes do not fit topology",
    "No suitable topology unit found for segment",
    "Insufficient resources in topology unit",
]
LIMITS = [word for word in WORDS if word.startswith(("QOSGrp", "QOSMax", "QOSMin", "AssocGrp",
                                                     "AssocMax", "Max"))]  # fmt: skip


@pytest.mark.parametrize("reason", WORDS + SENTENCES)
def test_every_reason_of_slurm_is_known(reason: str) -> None:
    """Each word and sentence in Slurm's source has a meaning, and is kept as given."""
    it = explain_pending(reason)
    assert UNKNOWN not in it.meaning
    assert it.reason == reason


@pytest.mark.parametrize(
    ("reason", "means", "helps"),
    [
        ("None", "has not considered the job yet", None),
        ("Priority", "jobs of higher priority", "sprio -j ID"),
        ("Resources", "are in use", "squeue --start -j ID"),
        ("Dependency", "depends on is not finished", "scontrol update JobId=ID Dependency="),
        ("DependencyNeverSatisfied", "did not end as", "scancel ID"),
        ("BeginTime", "--begin", "StartTime=now"),
        ("JobHeldUser", "held by its user", "scontrol release ID"),
        ("JobHeldAdmin", "held by an admin", "only admins can release it"),
        ("JobArrayTaskLimit", "--array=...%N", "ArrayTaskThrottle=N"),
        ("Licenses", "licenses", "scontrol show licenses"),
        ("Reservation", "has not begun", "scontrol show reservation"),
        ("PartitionTimeLimit", "exceeds the partition's MaxTime", "TimeLimit=TIME"),
        ("PartitionDown", "starts none", "Partition=NAME"),
        ("ReqNodeNotAvail, UnavailableNodes:c1,c2", "down or drained", "sinfo -R"),
        ("ReqNodeNotAvail, Reserved for maintenance", "maintenance", "TimeLimit=TIME"),
        ("launch failed requeued held", "the prolog or the launch failed", "scontrol release ID"),
        ("InvalidQOS", "QOS does not exist", "QOS=NAME"),
        ("BadConstraints", "no node can satisfy", "sinfo -N"),
    ],
)
def test_a_common_reason(reason: str, means: str, helps: str | None) -> None:
    """A common reason says what it means and which command helps."""
    it = explain_pending(reason)
    assert means in it.meaning
    assert it.help is None if helps is None else helps in (it.help or "")


@pytest.mark.parametrize(
    ("reason", "means", "column"),
    [
        ("QOSMaxGRESPerUser", "how many GPUs and other GRES one user may hold at once, and with "
         "this job you would hold more", "show qos format=Name,MaxTRESPU,Flags"),
        ("QOSMaxCpuPerUserLimit", "how many CPUs one user may hold at once", "MaxTRESPU"),
        ("MaxNodePerAccount", "how many nodes one account may hold at once", "MaxTRESPA"),
        ("QOSGrpMemLimit", "how much memory all jobs under it may hold at once", "GrpTRES,"),
        ("AssocGrpLicense", "how many licenses all jobs under it", "tree format=Account,User,Grp"),
        ("AssocGrpCPUMinutesLimit", "how many CPU minutes all jobs under it may use in total",
         "GrpTRESMins"),
        ("QOSGrpWallLimit", "minutes of wall-clock time all jobs under it", "GrpWall"),
        ("AssocGrpGRESRunMinutes", "how many GPU (or other GRES) minutes the running jobs",
         "GrpTRESRunMins"),
        ("MaxGRESRunMinsPerUser", "your running jobs under this QOS may have left",
         "MaxTRESRunMinsPU"),
        ("MaxCpuRunMinsPerAccount", "the running jobs of your account", "MaxTRESRunMinsPA"),
        ("QOSMaxJobsPerUserLimit", "how many jobs of one user may run", "MaxJobsPU"),
        ("MaxJobsPerAccount", "how many jobs of one account may run", "MaxJobsPA"),
        ("AssocMaxJobsLimit", "how many jobs of one user may run", "Partition,MaxJobs"),
        ("AssocGrpJobsLimit", "how many jobs may run under it", "GrpJobs"),
        ("QOSMaxSubmitJobPerUserLimit", "how many jobs of one user may wait and run",
         "MaxSubmitPU"),
        ("AssocMaxSubmitJobLimit", "how many jobs of one user may wait and run", "MaxSubmit"),
        ("QOSMaxGRESPerJob", "how many GPUs and other GRES one job may use", "MaxTRES,"),
        ("AssocMaxMemPerNode", "how much memory one job may use per node", "MaxTRESPerNode"),
        ("QOSMaxCpuMinutesPerJobLimit", "how many CPU minutes one job may use", "MaxTRESMins"),
        ("AssocMaxWallDurationPerJobLimit", "how long one job may run", "MaxWall"),
        ("QOSMinCpuNotSatisfied", "every job must request at least", "MinTRES"),
        ("QOSMaxUnknownPerUser", "Slurm's reason does not name it", "MaxTRESPU"),
    ],
)  # fmt: skip
def test_a_limit_is_taken_apart(reason: str, means: str, column: str) -> None:
    """A limit's word says what is limited and for whom, and sacctmgr's column shows it."""
    it = explain_pending(reason)
    assert means in it.meaning
    assert column in (it.help or "")


@pytest.mark.parametrize("reason", LIMITS)
def test_waiting_helps_against_limits_on_several_jobs_only(reason: str) -> None:
    """A limit on one job never lets it start; one on several jobs does, once others have ended."""
    of_one_job = reason.endswith(("PerJob", "PerJobLimit", "PerNode", "PerLimit"))
    it = explain_pending(reason)
    assert it.hopeless is (of_one_job or reason.startswith("QOSMin"))
    assert it.hopeless is ("it never starts: " in (it.help or "")) or reason == "MaxMemPerLimit"


def test_the_reasons_of_an_array() -> None:
    """Reasons that squeue joined for an array's tasks are each explained."""
    it = explain_pending("ReqNodeNotAvail, UnavailableNodes:c[1,3],Priority,JobArrayTaskLimit")
    assert "UnavailableNodes:c[1,3] (nodes" in it.meaning
    assert "Priority (jobs of higher" in it.meaning
    assert "JobArrayTaskLimit: raise" in (it.help or "")
    assert not it.hopeless


def test_an_array_is_hopeless_when_each_of_its_tasks_is() -> None:
    """One task that can start is enough for an array not to be hopeless."""
    assert explain_pending("DependencyNeverSatisfied,BadConstraints").hopeless
    assert not explain_pending("DependencyNeverSatisfied,Priority").hopeless
    assert explain_pending("Cleaning,Prolog").help is None


@pytest.mark.parametrize("reason", ["", " ", "none"])
def test_no_reason(reason: str) -> None:
    """No reason, in any spelling, means that Slurm has not looked yet."""
    assert explain_pending(reason).meaning == explain_pending("None").meaning


@pytest.mark.parametrize(
    "reason",
    ["SomethingNew", "GrpGRES", "MaxCpuPerJob", "QOSGrpCpuPerUser", "AssocMaxCpu",
     "QOSMaxWarpPerUser", "QOSMinJobs", "QOSMaxCpu", "AssocMaxCpuPerUser",
     "QOSMaxJobsPerJob", "QOSMaxWallPerUser", "AssocMinCpu", "QOSMaxCpuMinutesPerUser",
     "Priority,SomethingNew"],
)  # fmt: skip
def test_an_unknown_reason(reason: str) -> None:
    """A reason that Slurm's source does not have is kept, said to be unknown, and not guessed."""
    assert explain_pending(reason) == PendingExplanation(
        reason=reason,
        meaning=f'Slurm gives the reason "{reason}", which is unknown to hpckit',
        help="see all about the job: scontrol show job ID",
        hopeless=False,
    )


def test_control_characters_are_not_shown() -> None:
    """The meaning of an unknown reason cannot move the cursor of a terminal."""
    it = explain_pending("a\x1b[2Jb\n")
    assert it.reason == "a\x1b[2Jb\n"
    assert it.meaning.isprintable()


@given(st.one_of(st.text(), st.lists(st.sampled_from([*WORDS, *SENTENCES, ""])).map(",".join)))
def test_any_text_gives_an_explanation(reason: str) -> None:
    """Whatever Slurm prints, there is one sentence for it and the text itself."""
    it = explain_pending(reason)
    assert it.reason == reason
    assert it.meaning
    assert it.meaning.isprintable()
    assert it.help is None or it.help.isprintable()


@given(st.sampled_from(WORDS))
def test_case_does_not_matter(word: str) -> None:
    """Slurm reads its own words in any case (job_state_reason_num), and so does hpckit."""
    assert explain_pending(word.lower()).meaning == explain_pending(word).meaning
