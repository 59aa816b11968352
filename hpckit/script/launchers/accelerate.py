"""`accelerate`: one accelerate launch a node starts the node's ranks.

Source: accelerate/commands/launch.py and accelerate/utils/launch.py of accelerate 1.15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.script.launchers.launcher import Launcher
from hpckit.script.launchers.options import LauncherOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.script.launchers.launcher import SplitCommand
    from hpckit.spec.job import JobSpec


_STATIC = "nothing: the rendezvous is static"
_VALUED = """
    config-file mixed-precision num-cpu-threads-per-process dynamo-backend dynamo-mode gpu-ids
    log-dir tee t role rdzv-conf max-restarts monitor-interval deepspeed-config-file zero-stage
    offload-optimizer-device offload-param-device offload-optimizer-nvme-path
    offload-param-nvme-path gradient-accumulation-steps gradient-clipping zero3-init-flag
    zero3-save-16bit-model deepspeed-exclusion-filter deepspeed-inclusion-filter
    deepspeed-moe-layer-cls-names fsdp-version fsdp-offload-params fsdp-min-num-params
    fsdp-sharding-strategy fsdp-reshard-after-forward fsdp-auto-wrap-policy
    fsdp-transformer-layer-cls-to-wrap fsdp-backward-prefetch fsdp-state-dict-type
    fsdp-forward-prefetch fsdp-use-orig-params fsdp-cpu-ram-efficient-loading
    fsdp-sync-module-states fsdp-activation-checkpointing
    fsdp-activation-checkpointing-offload main-training-function fp8-backend fp8-margin
    fp8-interval fp8-format fp8-amax-history-len fp8-amax-compute-algo
    fp8-override-linear-precision fp8-opt-level
"""
_KINDS = {"multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "config-file"}
ACCELERATE = LauncherOptions(
    program=("accelerate", "launch"),
    owned={
        "num-machines": "resources.nodes (--nodes)",
        "num-processes": "resources.ntasks_per_node (--ntasks-per-node; default: one per GPU)",
        "machine-rank": "nothing: hpckit reads SLURM_PROCID on each node",
        "main-process-ip": "nothing: hpckit uses the first node",
        "main-process-port": "nothing: hpckit finds a free port",
        **dict.fromkeys(("rdzv-backend", "same-network"), _STATIC),
        "deepspeed-hostfile": "nothing: srun starts one launcher per node, without ssh",
        "deepspeed-multinode-launcher": "nothing: srun starts one launcher per node, without ssh",
        "mpirun-hostfile": 'launch.kind = "mpi"',
        "no-python": "the program itself as the command",
        "cpu": "nothing: use Accelerator(cpu=True) in the program, or request no GPUs",
        **dict.fromkeys(
            ("tpu", "tpu-cluster", "tpu-use-sudo", "vm", "env"), "nothing: TPUs are not supported"
        ),
    },
    valued=frozenset(_VALUED.split()),
    flags=frozenset(
        (
            *("quiet", "q", "multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "debug"),
            *("use-parallelism-config", "enable-cpu-affinity", "dynamo-use-fullgraph", "h", "help"),
            *("dynamo-use-dynamic", "dynamo-use-regional-compilation", "downcast-bf16"),
            *("fp8-use-autocast-during-eval", "fp8-enable-fsdp-float8-all-gather"),
            *("fp8-pad-inner-dim", "no-tpu-cluster"),
        )
    ),
    as_module=frozenset(["module", "m"]),
    shortens=False,
    prefixes=("megatron-lm-", "parallelism-config-"),
)
"""All that accelerate 1.15 has."""
_ALONE = "export RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1; "
"""Of one process alone accelerate says nothing to the program."""
_MULTI = (
    'c="${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/accelerate/default_config.yaml"; '
    'grep -qsE "distributed_type: (FSDP|DEEPSPEED|MEGATRON_LM)" "$c" || set -- --multi_gpu "$@"; '
)
"""Without a kind it would start the program once; what `accelerate config` has written stays."""
_START = (
    'exec accelerate launch --machine_rank={node} --main_process_ip="$MASTER_ADDR" '
    '--main_process_port="$MASTER_PORT" "$@"'
)


class Accelerate(Launcher):
    """srun starts one `accelerate launch` a node; what it configures stays as it was said."""

    kind = "accelerate"
    summary = "one accelerate launch per node starts its ranks"
    identity = "env"
    local_identity = "env"
    starts_ranks = True
    takes_args = True
    hands_signals_on = False

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return the launcher's options and the program, None where another program is first."""
        return ACCELERATE.read(words)

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the launcher, whose machine's rank is read where it runs."""
        return _words(spec, '"$SLURM_PROCID"')

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the one launcher of this machine."""
        return _words(spec, "0")


def _words(spec: JobSpec, node: str) -> tuple[str, ...]:
    size = (f"--num_machines={spec.resources.nodes}", f"--num_processes={spec.ntasks}")
    said = {word.split("=", 1)[0].lstrip("-").replace("_", "-") for word in spec.launch.args}
    multi = "" if said & _KINDS or spec.ntasks == 1 else _MULTI
    static = ("--same_network", "--rdzv_backend=static", "--deepspeed_multinode_launcher=standard")
    alone = _ALONE if spec.ntasks == 1 else ""
    start = ("bash", "-c", alone + multi + _START.format(node=node), "accelerate")
    return (*start, *size, *static, *spec.launch.args, "--no_python")
