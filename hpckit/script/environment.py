"""Which variables of the submitting shell a job may see, and which are held back and why.

A stale SLURM_CPU_BIND pins every rank of a new job to a few cores, a stale NCCL_IB_HCA sends it
over the wrong rail, and neither shows in any script. An exported function `exit` or `srun` takes
the place of what the script calls. What the scheduler or the launch must set, and functions that
are no tool's, are therefore held back at submission unless the job or site passes them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.core.values import dataclass
from hpckit.spec.job import EnvInherit

SCHEDULER_PATTERNS: Final = ("SLURM_*", "SLURMD_*", "SBATCH_*", "SRUN_*", "SALLOC_*", "SPANK_*")
LAUNCH_PATTERNS: Final = (
    "PMI_*", "PMIX_*", "PMI2_*", "OMPI_*", "PRTE_*", "HYDRA_*", "MPI_LOCAL*",
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK",
    "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_*", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "HPCKIT_*",
    "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "BASH_XTRACEFD",
)  # fmt: skip
COMMUNICATION_PATTERNS: Final = (
    "NCCL_*", "RCCL_*", "UCX_*", "UCC_*", "FI_*", "GLOO_*", "NVSHMEM_*", "MSCCL_*", "TORCH_NCCL_*",
    "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY",
)  # fmt: skip
FUNCTIONS: Final = "BASH_FUNC_*"
"""Exported functions of bash, which come before builtins and programs of their names."""
TOOL_FUNCTIONS: Final = (
    *("BASH_FUNC_module%%", "BASH_FUNC_ml%%", "BASH_FUNC__module_raw%%", "BASH_FUNC_switchml%%"),
    *("BASH_FUNC_spack%%", "BASH_FUNC__spack_shell_wrapper%%"),
    *("BASH_FUNC_conda%%", "BASH_FUNC___conda_*%%", "BASH_FUNC_mamba%%"),
)  # fmt: skip
"""Those of Lmod, Environment Modules, Spack and conda: they are for scripts to call."""
_WHICH: Final = "BASH_FUNC_which%%"
"""The which(1) of Red Hat's shells: no script misses it, and nobody needs to hear of it."""
ALWAYS_KEPT: Final = ("SLURM_CONF",)
"""Without SLURM_CONF a configless login node cannot find its controller."""
SBATCH_DEFAULTS: Final[Mapping[str, str]] = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_WCKEY": "wckey",
    "SBATCH_TIMELIMIT": "time",
}
"""A site's defaults for sbatch → the option that each stands for. sbatch(1), "INPUT ENVIRONMENT
VARIABLES": they override what stands in a script, so that one is kept only where the script
leaves its option open."""
BASIC: Final = (
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
    "MODULESHOME", "MODULEPATH", "LMOD_*", *TOOL_FUNCTIONS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionEnvironment:
    """The environment of a job at submission; values of `held_back` are never kept.

    `sbatch_defaults` are names from `variables` that sbatch itself will read.
    """

    variables: Mapping[str, str]
    held_back: tuple[str, ...]
    sbatch_defaults: tuple[str, ...] = ()


def submission_environment(
    environment: Mapping[str, str],
    inherit: EnvInherit,
    passed: Sequence[str],
    *,
    stated: Sequence[str] | None = None,
) -> SubmissionEnvironment:
    """Split `environment` into what the job sees and what is held back.

    `passed` are names, or beginnings followed by `*`. `held_back` names, sorted, only what
    differs from plain inheritance in a way that matters: under `none`, where nearly everything
    goes, the scheduler's, the launch's and the communication's variables. `stated` are the
    sbatch options that the script says itself, None without sbatch.
    """
    defaults = _sbatch_defaults(environment, stated)
    guarded = (*SCHEDULER_PATTERNS, *LAUNCH_PATTERNS, *COMMUNICATION_PATTERNS, FUNCTIONS)
    kept: dict[str, str] = {}
    held_back: list[str] = []
    for name, value in environment.items():
        if _matches(name, passed) or name in ALWAYS_KEPT or name in defaults:
            kept[name] = value
        elif _matches(name, guarded) and not _matches(name, TOOL_FUNCTIONS):
            if not name.startswith(("HPCKIT_", _WHICH)):
                held_back.append(name)
        elif inherit is EnvInherit.ALL or _matches(name, BASIC):
            kept[name] = value
    return SubmissionEnvironment(
        variables=kept, held_back=tuple(sorted(held_back)), sbatch_defaults=defaults
    )


def _sbatch_defaults(
    environment: Mapping[str, str], stated: Sequence[str] | None
) -> tuple[str, ...]:
    """The variables that say something to sbatch which the script leaves open.

    Inside a job they are that job's, not the site's.
    """
    if stated is None or "SLURM_JOB_ID" in environment:
        return ()
    return tuple(
        name
        for name, option in SBATCH_DEFAULTS.items()
        if environment.get(name) and option not in stated
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(_matches_one(name, *pattern.partition("*")) for pattern in patterns)


def _matches_one(name: str, begin: str, star: str, end: str) -> bool:
    return name.startswith(begin) and name.endswith(end) if star else name == begin
