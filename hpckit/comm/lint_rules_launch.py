"""Rules about the launch: visible GPUs, what reaches the ranks, where they meet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpckit.comm.lint_rule import Scene, Seen, Setting, SettingForm, error, note, warning
from hpckit.comm.lint_rules_network import whole_number
from hpckit.comm.variables import NCCL_VARIABLES
from hpckit.core.late import regex

_PER_NODE: Final = "use --gpus-per-node=N --gpu-bind=none; each rank takes GPU SLURM_LOCALID"
_HIDES: Final = "each rank sees only its own GPU, so NCCL has no P2P to the others, or fails"
_PEERS: Final = "srun(1); nccl#1066, nccl-tests#300, ompi#11949, pyxis#73"
_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_IN_SCRIPT: Final = (SettingForm.EXPORT, SettingForm.PREFIX, SettingForm.OPTION, SettingForm.JOB)
_SEEN_BELOW: Final = (SettingForm.EXPORT, SettingForm.PREFIX)
_INHERITED: Final = (SettingForm.ENV,)
_COMM: Final = ("NCCL_*", "RCCL_*", "FI_*", "UCX_*", "OFI_NCCL_*", "TORCH_NCCL_*")
_READ: Final = frozenset(one.name for one in NCCL_VARIABLES)
_READ_NAMES: Final = (
    "NCCL_*", "RCCL_MSCCL_ENABLE", "FI_PROVIDER", "FI_EFA_*", "FI_CXI_*", "FI_MR_*", "UCX_TLS",
    "UCX_NET_DEVICES", "OFI_NCCL_*", "TORCH_NCCL_*",
)  # fmt: skip
_COMM_START: Final = tuple(name[:-1] for name in _COMM)
TORCH_NAMES: Final = (
    "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING",
    "NCCL_AVOID_RECORD_STREAMS", "NCCL_USE_COMM_NONBLOCKING",
)  # fmt: skip
_RDMA: Final = regex(r"=?(mlx[45]|hfi1|bnxt_re)_?\d", re.ASCII)
_NO_GPU: Final = regex(r"(.*:)?0+")
_SEVERAL: Final = regex(r"(^|:)0*([2-9]|1\d)\d*$")
_EPHEMERAL: Final = range(32768, 61000)
_USUAL_PORT: Final = 29500
_WHOLE_NODE: Final = 8
"""A job with that many GPUs of a node has it whole; with fewer than half of them it shares it."""
_HALF_NODE: Final = _WHOLE_NODE // 2
_LISTS: Final = frozenset(
    ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_ALGO", "NCCL_PROTO", "NCCL_DEBUG_SUBSYS",
     "UCX_TLS", "UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES")
)  # fmt: skip


def _hides_peers(one: Setting, scene: Scene) -> Seen | None:
    """A GPU a task hides others where a node has several tasks and something is bound.

    Slurm starts one task a node where nothing asks for more; as many tasks as nodes are one a node,
    as torchrun is started. Only srun binds, and a task with several GPUs may need no others, nor
    does one where P2P is off.
    """
    flags = [other.value or "" for other in scene.beside(one, "--gres-flags")]
    if _NO_GPU.fullmatch(one.value or "") or any("allow-task-sharing" in flag for flag in flags):
        return None
    bound = [other.value for other in scene.beside(one, "--gpu-bind") if other is not one]
    each = {other.value for other in scene.beside(one, "--ntasks-per-node")}
    total = {other.value for other in scene.beside(one, "--ntasks")}
    by_gpus = any(any(scene.beside(one, name)) for name in ("--gpus", "--ntasks-per-gpu"))
    is_alone = "1" in each | total or (scene.nodes is not None and str(scene.nodes) in total)
    has_several = not is_alone and (each or total or by_gpus)
    is_open = has_several and "none" not in bound
    is_step = scene.has_steps or one.program == "srun"
    is_single = not _SEVERAL.search(one.value or "")
    is_off = any(_holds_for(other, one) for other in _p2p_off(one, scene))
    is_sure = scene.has_collectives and is_step and is_single and not is_off
    return Seen(is_sure=is_sure) if is_open else None


def _p2p_off(one: Setting, scene: Scene) -> Iterator[Setting]:
    for it in (*scene.beside(one, "NCCL_P2P_DISABLE"), *scene.beside(one, "NCCL_P2P_LEVEL")):
        is_off = it.value in ("LOC", "0") if it.name.endswith("LEVEL") else whole_number(it.value)
        if is_off and it.form is not SettingForm.SHELL:
            yield it


def _holds_for(variable: Setting, option: Setting) -> bool:
    """Whether a variable may be set for a command that an option is for."""
    if option.until_line is None:
        return True
    lasts = variable.until_line is None or option.until_line <= variable.until_line
    return lasts and variable.line <= option.line


def _shared_port(one: Setting, scene: Scene) -> Seen | None:
    """PyTorch's own port, where another job may run on the node."""
    gpus = scene.gpus_per_node
    if whole_number(one.value) != _USUAL_PORT or scene.is_exclusive:
        return None
    if gpus is not None and gpus >= _WHOLE_NODE:
        return None
    return Seen(is_sure=gpus is not None and gpus < _HALF_NODE)


def _foreign_gpus(one: Setting, scene: Scene) -> Seen | None:
    """GPUs that the job may not have; a list of a whole node's, in any order, only orders them."""
    indices = {int(index) for index in re.findall(r"\d{1,4}", one.value or "")}
    is_whole = len(indices) >= _HALF_NODE and indices == set(range(len(indices)))
    if is_whole or scene.is_exclusive or "CUDA_MPS_PIPE_DIRECTORY" in scene.by_name:
        return None
    gpus = scene.gpus_per_node
    return Seen(is_sure=gpus is not None and max(indices) >= gpus)


def _lost_exports(one: Setting, scene: Scene) -> Seen | None:
    """Exports of the script that an `--export` without ALL keeps from the ranks."""
    if one.program != "srun" or one.value is None or one.value.upper() == "NIL":
        return None
    parts = [part for part in one.value.split(",") if part.upper() != "NONE"]
    if "ALL" in (part.upper() for part in parts):
        return None
    passed = {part.partition("=")[0] for part in parts}
    lost = sorted(
        name
        for name in scene.by_name
        if name.startswith(_COMM_START)
        and name not in passed
        and any(other.form in _SEEN_BELOW for other in scene.beside(one, name))
    )
    do = ",".join(("--export=ALL", *parts))
    words = ", ".join(lost[:4]) + (" …" if len(lost) > 4 else "")  # noqa: PLR2004
    counts = scene.beside(one, "--ntasks")
    is_alone = any(other.program == "srun" and other.value == "1" for other in counts)
    return Seen(words, do, is_sure=not is_alone) if lost else None


def _leaves_none(one: Setting, scene: Scene) -> Seen:
    """Sure where an index is beyond the GPUs that the other list leaves."""
    indices = [int(index) for index in re.findall(r"\d{1,4}", one.value or "")]
    others = [other.value for other in scene.beside(one, "ROCR_VISIBLE_DEVICES")]
    left = [len(value.split(",")) for value in others if value]
    return Seen(is_sure=bool(indices and left) and max(indices) >= max(left))


def _set_twice(one: Setting, _: Scene) -> str | None:
    lost = one.instead_of
    return f"{one.name}={lost.value} on line {lost.line}" if lost else None


def _cut_list(one: Setting, _: Scene) -> str | None:
    """A list inside `--export`, whose commas part variables."""
    before = ""
    for part in (one.value or "").split(","):
        name, equals, _value = part.partition("=")
        if equals:
            before = name
        elif before in _LISTS and not part.isupper():
            return f"{before} ends before `,{part}`"
        else:
            before = ""
    return None


def _not_exported(one: Setting, scene: Scene) -> Seen | None:
    """A variable of the shell alone that no launcher is told of, and that a library would read."""
    is_read = not one.name.startswith("NCCL_") or one.name in _READ
    forms = {other.form for other in scene.by_name.get(one.name, ())}
    is_told = SettingForm.OPTION in forms or SettingForm.EXPORT in forms
    if one.form is not SettingForm.SHELL or not is_read or is_told or one.is_passed:
        return None
    is_rdma = one.name == "NCCL_SOCKET_IFNAME" and _RDMA.match(one.value or "")
    do = "remove it: RDMA devices belong in NCCL_IB_HCA" if is_rdma else f"export {one.name}=…"
    return Seen(do=do)


LAUNCH_RULES: Final = (
    warning("gpus-per-task", "--gpus-per-task --ntasks-per-gpu", when=_hides_peers,
            because=f"binds GPUs to tasks: {_HIDES}", remedy=_PER_NODE, source=_PEERS),
    warning("tres-per-task", "--tres-per-task", value=r".*gres/gpu\b.*", when=_hides_peers,
            because=f"binds GPUs to tasks: {_HIDES}", remedy=_PER_NODE, source=_PEERS),
    warning("gpu-bind-single", "--gpu-bind",
            value=r"(verbose,|v,)?(single|per_task|map_gpu|map|mask_gpu|mask)\b.*",
            when=_hides_peers, because=_HIDES, remedy=_PER_NODE, source=_PEERS),
    warning("tres-bind-single", "--tres-bind",
            value=r".*gres/gpu:(verbose,)?(single|per_task|map|mask)\b.*", when=_hides_peers,
            because=_HIDES, remedy=_PER_NODE, source=_PEERS),
    error("export-without-all", "--export", when=_lost_exports,
          because="without ALL the ranks do not get {seen}", remedy="{do}",
          source="srun(1), --export"),
    error("option-cut", _COMM, forms=(SettingForm.CUT,), is_mistake=True,
          because="no launcher gets this option: the command ended on an earlier line, at a comment"
          " or at a backslash followed by a space",
          remedy="end the earlier lines with a backslash only; move comments out of the command",
          source="bash(1), QUOTING"),
    warning("set-twice",
            (*_COMM, "GLOO_*", "TP_SOCKET_IFNAME", "HSA_*", "OMPI_MCA_*", "MPICH_*", "I_MPI_*",
             "MASTER_ADDR", "MASTER_PORT"), when=_set_twice,
            because="set to {value} here, so {seen} has no effect",
            remedy="keep only one", source="bash(1), export; NCCL src/misc/param.cc"),
    error("export-comma", "--export", when=_cut_list, is_mistake=True,
          because="commas separate variables here: {seen}",
          remedy="export the variable in the script and use --export=ALL",
          source="srun(1), --export"),
    warning("not-exported", _READ_NAMES, when=_not_exported,
            because="not exported, so no program sees it unless it was exported earlier",
            remedy="{do}", source="bash(1), export"),
    warning("visible-fixed", _VISIBLE, value="[0-9][0-9, ]*", forms=_IN_SCRIPT,
            when=_foreign_gpus,
            because="a fixed list may name GPUs that Slurm did not give the job, and gives all"
            " ranks the same GPUs", source="Slurm gres guide"),
    warning("visible-twice", "HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES",
            beside=("ROCR_VISIBLE_DEVICES", None), when=_leaves_none,
            because="indexes the GPUs that {other} leaves, so together they may leave none",
            remedy="set only one of them", source="ROCm documentation, GPU isolation"),
    warning("cpu-bind-leak", "SLURM_CPU_BIND SLURM_CPU_BIND_LIST", value=r".*(0x[0-9a-f]|\d).*",
            forms=_INHERITED,
            because="every srun from here inherits it and binds its ranks to another step's CPUs",
            remedy="unset ${{!SLURM_CPU_BIND@}} before sbatch or srun",
            source="srun(1), INPUT ENVIRONMENT VARIABLES"),
    warning("hostfile-leak", "SLURM_HOSTFILE", forms=_INHERITED,
            because="every srun and sbatch from here uses this host list, for other jobs too",
            remedy="SLURM_HOSTFILE=FILE srun --distribution=arbitrary …, for one step",
            source="srun(1), INPUT ENVIRONMENT VARIABLES"),
    warning("port-fixed", "MASTER_PORT", when=_shared_port,
            because="PyTorch's default port: a second job on the node fails with EADDRINUSE",
            remedy="MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))",
            source="accelerate#2096; enroot hook 50-slurm-pytorch.sh"),
    note("port-ephemeral", "MASTER_PORT", when=lambda one, _: whole_number(one.value) in _EPHEMERAL,
         because="in Linux's ephemeral range (32768 to 60999), so another program may hold it",
         remedy="use a port below 32768 or above 60999", source="enroot#243"),
    warning("master-local", "MASTER_ADDR", value=r"localhost|127\..*|::1|0\.0\.0\.0", nodes="many",
            when=lambda one, scene: Seen(is_sure=len(scene.by_name[one.name]) == 1),
            because="each node would wait for itself",
            remedy='MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            source="PyTorch, torch.distributed"),
    note("torch-renamed", TORCH_NAMES,
         because="a variable of PyTorch, not of NCCL: TORCH_{name} since PyTorch 2.2",
         remedy="remove it, or set TORCH_{name}", source="PyTorch, ProcessGroupNCCL.hpp"),
    note("blocking-left", "CUDA_LAUNCH_BLOCKING HIP_LAUNCH_BLOCKING AMD_SERIALIZE_KERNEL",
         value="[1-9]",
         because="kernels run one at a time, so communication no longer overlaps with them",
         remedy="remove it unless the job hangs without it; it is for finding a failing kernel",
         source="CUDA programming guide; HIP documentation"),
    warning("torch-debug-left", "TORCH_DISTRIBUTED_DEBUG", value="detail",
            because="slows the job: every collective is first checked across all ranks",
            source="PyTorch, torch.distributed, debugging"),
)  # fmt: skip
