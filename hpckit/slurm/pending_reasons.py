"""Slurm's words for why a job waits, each with its meaning and what helps.

Source: squeue(1) "JOB REASON CODES", Slurm's page job_reason_codes, `enum job_state_reason` in
slurm.h, and where slurmctld sets each (22.05 to 26.05). The words for limits of a QOS or an
association follow a grammar and are taken apart in `pending`. ID stands for the job's id.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """What one reason means, what would help, and whether it never starts as it stands."""

    meaning: str
    help: str | None = None
    hopeless: bool = False


class Text(NamedTuple):
    """A reason that Slurm writes as a sentence: how it begins (a regular expression), and one."""

    begins: str
    example: str
    entry: Entry


_LATER: Final = "expected start: squeue --start -j ID"
_RELEASE: Final = "find the cause (scontrol show job ID), then: scontrol release ID"
_OPERATOR: Final = "only admins can release it; the job's comment may say why: scontrol show job ID"
_OTHER_PARTITION: Final = "scontrol update JobId=ID Partition=NAME"
_UP: Final = (
    f"it starts when the admins set the partition UP; or use another one: {_OTHER_PARTITION}"
)
_MINE: Final = "what you may use: sacctmgr -P show assoc user=$USER format=Account,Partition,QOS"
_QOS_CHANGE: Final = f"{_MINE}; then: scontrol update JobId=ID QOS=NAME"
_ACCOUNT_CHANGE: Final = f"{_MINE}; then: scontrol update JobId=ID Account=NAME"
_ENDED: Final = "see how it ended: sacct -j ID --format=JobID,State,ExitCode,Elapsed"
_BB_STATE: Final = "see the stage and its message: scontrol show burstbuffer"
_NODES: Final = "see why nodes are out: sinfo -R"
_TOPOLOGY: Final = (
    f"fewer nodes may fit, or a job without slurm.switches and slurm.segment; {_LATER}"
)
_QOS_LIMITS: Final = "see its limits: sacctmgr -P show qos"
_ASSOC_LIMITS: Final = "see its limits: sacctmgr -P show assoc tree"
_ALL_LIMITS: Final = f"{_QOS_LIMITS}; sacctmgr -P show assoc tree"

WORDS: Final[dict[str, Entry]] = {
    # --- in the queue ---
    "None": Entry("Slurm has not considered the job yet, or not since the last change"),
    "Priority": Entry(
        "jobs of higher priority are ahead in the same partition or reservation",
        "a shorter --time may let it start in a gap (backfill); its priority: sprio -j ID; "
        f"{_LATER}",
    ),
    "Resources": Entry(
        "the requested resources are in use",
        f"fewer resources or a shorter --time may start sooner; {_LATER}",
    ),
    "Licenses": Entry(
        "the requested licenses are in use",
        "it starts when they are free: scontrol show licenses",
    ),
    "Reservation": Entry(
        "the reservation of the job has not begun, or has no free resources for it",
        "see its times and nodes: scontrol show reservation",
    ),
    "JobArrayTaskLimit": Entry(
        "the job array runs as many tasks as its limit (--array=...%N) allows",
        "raise the limit: scontrol update JobId=ID ArrayTaskThrottle=N",
    ),
    "Constraints": Entry(
        "no node satisfies the job's constraints now (--extra, --prefer); Slurm tries again",
        "see what the job requests: scontrol show job ID; and what nodes have: scontrol show node",
    ),
    "BadConstraints": Entry(
        "no node can satisfy the job's request, and Slurm holds the job",
        "see what nodes have: sinfo -N -o '%N %P %c %m %G %f'; request that with scontrol update "
        "JobId=ID ... (Slurm then tries again), or scancel ID and submit again",
        hopeless=True,
    ),
    "MpiPortsBusy": Entry("the ports reserved for MPI are in use by other jobs on its nodes"),
    "NvidiaImexChannels": Entry("all NVIDIA IMEX channels are in use by other jobs"),
    "MaxPoweredUpNodes": Entry("max_powered_nodes is reached: no more nodes may be powered up"),
    "PowerNotAvail": Entry("the power that the job needs is not available now"),
    "PowerReserved": Entry("the power that the job needs is reserved for other jobs"),
    "BlockMaxError": Entry("the BlueGene block for the job has too many nodes in error"),
    "BlockFreeAction": Entry("the BlueGene block for the job is being freed"),
    "FedJobLock": Entry(
        "the clusters of the federation have not yet agreed which of them starts the job"
    ),
    "Cleaning": Entry("the job was requeued, and Slurm is still cleaning up its previous run"),
    "Prolog": Entry("the job has its nodes, and their prolog is still running"),
    # --- waits for something named ---
    "Dependency": Entry(
        "a job or condition that this job depends on is not finished",
        "see which (Dependency=): scontrol show job ID; drop the dependency: scontrol update "
        "JobId=ID Dependency=",
    ),
    "DependencyNeverSatisfied": Entry(
        "the job depends on another job, which did not end as the dependency requires",
        "cancel it: scancel ID; or drop the dependency and let it run: scontrol update JobId=ID "
        "Dependency=",
        hopeless=True,
    ),
    "BeginTime": Entry(
        "the earliest start time of the job is in the future (--begin, or the pause after a "
        "requeue)",
        "see StartTime= in: scontrol show job ID; start earlier: "
        "scontrol update JobId=ID StartTime=now",
    ),
    "BurstBufferResources": Entry("the burst buffer has too little free space", _BB_STATE),
    "BurstBufferStageIn": Entry("the job's files are being copied to the burst buffer", _BB_STATE),
    "BurstBufferOperation": Entry(
        "an operation of the job's burst buffer failed, and Slurm may hold the job",
        f"{_BB_STATE}; if it is held (priority 0), {_OPERATOR}",
    ),
    # --- held ---
    "JobHeldUser": Entry("the job is held by its user or account", "scontrol release ID"),
    "JobHeldAdmin": Entry(
        "the job is held by an admin, or by Slurm after a failure",
        _OPERATOR,
    ),
    "JobHoldMaxRequeue": Entry(
        "the job failed to launch more often than MaxBatchRequeue allows, and Slurm holds it",
        _OPERATOR,
    ),
    "ReservationDeleted": Entry(
        "the reservation of the job was deleted, and Slurm holds the job",
        "run it without a reservation: scontrol release ID",
    ),
    "ReservationInvalid": Entry(
        "the reservation of the job is invalid, and Slurm holds the job",
        "name another, which also releases it: scontrol update JobId=ID ReservationName=NAME",
        hopeless=True,
    ),
    # --- partition and nodes ---
    "PartitionDown": Entry(
        "the partition queues jobs but starts none (DOWN)",
        _UP,
    ),
    "PartitionInactive": Entry(
        "the partition neither queues nor starts jobs (INACTIVE)",
        _UP,
    ),
    "PartitionNodeLimit": Entry(
        "the job requests more or fewer nodes than the partition allows, or more than are in "
        "service",
        "see MinNodes=, MaxNodes= and State= in: scontrol show partition; if --nodes is outside "
        f"these limits, it never starts there; if not, {_NODES}",
    ),
    "PartitionTimeLimit": Entry(
        "the job's --time exceeds the partition's MaxTime",
        "see MaxTime= in: scontrol show partition; then: scontrol update JobId=ID TimeLimit=TIME, "
        f"or {_OTHER_PARTITION}",
        hopeless=True,
    ),
    "PartitionConfig": Entry(
        "the partition does not admit the job now, because of its access rules or limits",
        "compare scontrol show partition with scontrol show job ID; or use another one: "
        f"{_OTHER_PARTITION}",
    ),
    "MaxMemPerLimit": Entry(
        "the job requests more memory per CPU or per node than MaxMemPerCPU or MaxMemPerNode "
        "allows",
        "cancel it (scancel ID) and request less: --mem, --set resources.mem_per_cpu=SIZE; see "
        "the limit: scontrol show partition, scontrol show config",
        hopeless=True,
    ),
    "ReqNodeNotAvail": Entry(
        "nodes that the job needs are down, drained, or reserved",
        f"{_NODES}; scontrol show reservation; with a --time that ends before the reservation, it "
        "may start",
    ),
    "FrontEndDown": Entry("no front-end node is available to run the job", "ask the admins"),
    # --- account and QOS ---
    "AccountingPolicy": Entry(
        "a limit of the QOS or the association blocks the job; Slurm does not say which",
        _ALL_LIMITS,
    ),
    "InvalidAccount": Entry(
        "the job's account does not exist, or you may no longer use it",
        _ACCOUNT_CHANGE,
        hopeless=True,
    ),
    "InvalidQOS": Entry(
        "the job's QOS does not exist, or you may not use it with this account",
        _QOS_CHANGE,
        hopeless=True,
    ),
    "AccountNotAllowed": Entry(
        "the job's account or your group is not allowed in the partition",
        "see AllowAccounts=, DenyAccounts= and AllowGroups= in: scontrol show partition; "
        f"{_ACCOUNT_CHANGE}",
        hopeless=True,
    ),
    "QOSNotAllowed": Entry(
        "the job's QOS is not allowed in the partition",
        f"see AllowQos= and DenyQos= in: scontrol show partition; {_QOS_CHANGE}",
        hopeless=True,
    ),
    "QOSUsageThreshold": Entry(
        "your fair-share factor is below the UsageThreshold of the QOS",
        "it rises as past usage decays: sshare; or use another QOS: scontrol update JobId=ID "
        "QOS=NAME",
    ),
    "QOSJobLimit": Entry("the QOS has as many jobs as it allows", _QOS_LIMITS),
    "QOSResourceLimit": Entry("the QOS has reached a resource limit", _QOS_LIMITS),
    "QOSTimeLimit": Entry("the QOS has reached a time limit", _QOS_LIMITS),
    "AssociationJobLimit": Entry("the association has as many jobs as it allows", _ASSOC_LIMITS),
    "AssociationResourceLimit": Entry(
        "the association has reached a resource limit", _ASSOC_LIMITS
    ),
    "AssociationTimeLimit": Entry("the association has reached a time limit", _ASSOC_LIMITS),
    # Slurm prints this word for a QOS's limit too (job_state_reason.c, 22.05 to 26.05).
    "AssocMaxBBMinutesPerJob": Entry(
        "your association or the QOS limits how many burst buffer minutes one job may use, and "
        "this job requests more",
        "it never starts: set a shorter --time (scontrol update JobId=ID TimeLimit=TIME), or less "
        "--set slurm.extra.bb=SPEC; see the limits: sacctmgr -P show assoc user=$USER "
        "format=Account,Partition,MaxTRESMins; sacctmgr -P show qos format=Name,MaxTRESMins",
        hopeless=True,
    ),
    # --- why a run ended; such a word may stay until Slurm looks at a requeued job again ---
    "NodeDown": Entry("a node of the job went down", _ENDED),
    "SystemFailure": Entry("Slurm itself failed while handling the job", _ENDED),
    "JobLaunchFailure": Entry("the job could not be launched (file system, missing file)", _ENDED),
    "NonZeroExitCode": Entry("the job's script ended with an exit code other than 0", _ENDED),
    "RaisedSignal": Entry("a signal ended the job's script", _ENDED),
    "TimeLimit": Entry("the job reached its time limit", _ENDED),
    "InactiveLimit": Entry("the job was inactive for longer than InactiveLimit allows", _ENDED),
    "OutOfMemory": Entry("the job needed more memory than it requested", _ENDED),
    "SchedDefer": Entry(
        "the job requested to start at once (--immediate), which SchedulerParameters=defer does "
        "not allow",
        "submit it again without slurm.extra.immediate",
        hopeless=True,
    ),
    "DeadLine": Entry(
        "the job could not end before its --deadline, and Slurm removed it",
        "submit it again with a later slurm.extra.deadline or a shorter --time",
        hopeless=True,
    ),
}

TEXTS: Final[tuple[Text, ...]] = (
    Text(
        r"ReqNodeNotAvail, ?UnavailableNodes:",
        "ReqNodeNotAvail, UnavailableNodes:c1,c2",
        Entry(
            "nodes that the job needs, or too many nodes of the partition, are down or drained",
            f"{_NODES}; if the job sets --nodelist, name other nodes or remove it",
        ),
    ),
    Text(
        r"ReqNodeNotAvail, ?Reserved for maintenance",
        "ReqNodeNotAvail, Reserved for maintenance",
        Entry(
            "the job might still run when nodes that it needs are reserved for maintenance",
            "see when: scontrol show reservation; with a --time that ends before, it may start "
            "now: scontrol update JobId=ID TimeLimit=TIME",
        ),
    ),
    Text(
        r"ReqNodeNotAvail",
        "ReqNodeNotAvail, May be reserved for other job",
        WORDS["ReqNodeNotAvail"],
    ),
    Text(
        r"Nodes required for job are DOWN, DRAINED",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions",
        Entry(
            "too few nodes of the partition are in service and not reserved for jobs of higher "
            "priority",
            f"{_NODES}; use fewer --nodes, or another partition: {_OTHER_PARTITION}",
        ),
    ),
    Text(
        r"launch failure limit exceeded",
        "launch failure limit exceeded requeued held",
        WORDS["JobHoldMaxRequeue"],
    ),
    Text(
        r"launch failed requeued held",
        "launch failed requeued held",
        Entry(
            "the prolog or the launch failed on a node, and Slurm requeued and held the job",
            _RELEASE,
        ),
    ),
    Text(
        r"user env retrieval failed",
        "user env retrieval failed requeued held",
        Entry(
            "your login environment could not be read in time (--get-user-env), and Slurm "
            "requeued and held the job",
            _RELEASE,
        ),
    ),
    Text(
        r"job requeued in (held|special exit) state",
        "job requeued in held state",
        Entry(
            "the job was requeued and held (scontrol requeuehold, or an exit code in "
            "RequeueExitHold)",
            _RELEASE,
        ),
    ),
    Text(
        r"uid \d+ not in group permitted",
        "uid 1000 not in group permitted to use this partition (gpu). groups allowed: ai",
        WORDS["AccountNotAllowed"],
    ),
    Text(
        r"Job's account not permitted to use this partition",
        "Job's account not permitted to use this partition (gpu allows ai not proj1)",
        WORDS["AccountNotAllowed"],
    ),
    Text(
        r"Job's QOS not (permitted|known)",
        "Job's QOS not permitted to use this partition (gpu allows long not debug)",
        WORDS["QOSNotAllowed"],
    ),
    Text(
        r"License request .* is no longer valid",
        "License request 'ansys:4' is no longer valid, holding job",
        Entry(
            "the cluster no longer has the requested licenses, and Slurm holds the job",
            "see the licenses: scontrol show licenses; cancel it (scancel ID) and request one of "
            "those",
            hopeless=True,
        ),
    ),
    Text(
        r"Reservation .* was deleted", "Reservation course was deleted", WORDS["ReservationDeleted"]
    ),
    Text(
        r"Reservation .* is invalid", "Reservation course is invalid", WORDS["ReservationInvalid"]
    ),
    Text(
        r"Reservation .*, which this job was running under, has ended",
        "Reservation course, which this job was running under, has ended",
        Entry("the reservation ended while the job was running, so the job ended too", _ENDED),
    ),
    Text(
        r"burst_buffer/\w+: .*Stage-out in progress",
        "burst_buffer/lua: Stage-out in progress",
        Entry("the job's files are being copied from the burst buffer", _BB_STATE),
    ),
    Text(
        r"burst_buffer/\w+: |Burst buffer |Error managing persistent burst|Could not find burst",
        "burst_buffer/lua: slurm_bb_data_in failed: no space",
        WORDS["BurstBufferOperation"],
    ),
    Text(r"RaisedSignal:", "RaisedSignal:9(Killed)", WORDS["RaisedSignal"]),
    Text(
        r"Job is at or exceeds (QOS|association) ",
        "Job is at or exceeds QOS long's group wall limit of 600 with 601",
        Entry(
            "a run of the job ended when a time limit of its QOS or association was used up",
            _ALL_LIMITS,
        ),
    ),
    Text(
        r"(Requested topology configuration is not available|Required nodes (lack available"
        r"|do not fit topology)|No suitable topology unit|Insufficient resources in topology"
        r"|Weight-based selection|Exceeded maximum node limit during topology"
        r"|No available nodes in topology)",
        "No suitable topology unit found",
        Entry(
            "the free nodes do not fit the network topology that the job requests",
            _TOPOLOGY,
        ),
    ),
)
