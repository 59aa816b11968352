"""The zipapp that carries hpckit's in-job code to the compute nodes."""

from __future__ import annotations

import importlib.util
import io
import marshal
import os
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

_SINGLE_MODULES = (
    "hpckit/__init__.py",
    *(f"hpckit/adapters/{name}.py" for name in ("__init__", "amd_energy", "nvml_calls")),
    *(f"hpckit/decide/{name}.py" for name in ("__init__", "rendezvous")),
    *(f"hpckit/model/{name}.py" for name in ("__init__", "account_files")),
)
# What the sampler imports besides; a test runs it from the archive.
_SAMPLER_MODULES = (
    "adapters/{__init__,amd_counters,cgroup_counters,held_file,host_counters,job_counters}",
    "adapters/{job_processes,job_watch,node_counters,nvml_calls,nvml_counters,nvml_gpm,nvml_shown}",
    "adapters/{nvml_slow,sample_clock,sample_copier,sample_guard,sample_spool}",
    "app/{__init__,sample}",
    "decide/{__init__,sampled_gpus}",
    "model/{__init__,account_files,samples}",
    "parse/{__init__,cgroup,process_stat,slurm_node}",
    "{sample_ports}",
)
# This one file is read by whatever Python the node has, so it keeps to the syntax of Python 3.6,
# and a rank whose Python is too old for the rest still runs its command.
_NEW_ENOUGH = """\
import sys

if sys.version_info >= (3, 11):
    from hpckit.injob.main import main

    sys.exit(main(sys.argv[1:]))

"""
_MAIN = (
    _NEW_ENOUGH
    + """\
import os
import signal

sys.stderr.write("hpckit: the rank entry needs Python 3.11, this is %s\\n" % sys.version.split()[0])
sys.stderr.flush()
if sys.argv[1:2] != ["rank"] or not sys.argv[5:]:
    sys.exit(2)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[5], sys.argv[5:])
except OSError as error:
    sys.stderr.write("hpckit: cannot run %s: %s\\n" % (sys.argv[5], error.strerror))
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
)
_PROBE_MAIN = (
    _NEW_ENOUGH
    + """\
sys.exit("the probe needs Python 3.11, this is %s" % sys.version.split()[0])
"""
)
# PEP 552: bit 0 marks a hash-based file, bit 1 (not set) asks for a check against the source.
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")
_EPOCH = (1980, 1, 1, 0, 0, 0)


# What the probe imports besides; a test runs it from the archive.
_PROBE_MODULES = (
    "adapters/{__init__,node_file,nvml,nvml_links,nvml_session,regular_file,sysfs}",
    "app/{__init__,inspect}",
    "decide/{__init__,complete,finding_rule,merge,merge_pci,nic_nearness,nic_roles}",
    "decide/{paths,paths_devices,paths_nccl,pci_tree}",
    "model/{__init__,file_tree,gpu_ids,hardware,hostlist,index_list,node_finding,nvml_reading}",
    "model/{link_rates,nic_ids,nic_state,node_limits,path,pci,pci_vendors,rules,tree}",
    "parse/{__init__,excerpt,infiniband,kfd,kfd_files,kfd_ids,linked_paths,node_file,probe_answer}",
    "parse/{nvml,nvml_gpu,nvml_links,nvml_words,sysfs,sysfs_cpu,sysfs_cpuinfo,sysfs_devices}",
    "parse/{sysfs_net,sysfs_numa,sysfs_patterns,sysfs_pci,sysfs_pci_config,sysfs_tree,xgmi}",
    "{errors,units}",
)


def pack_injob(target: Path) -> None:
    """Write the in-job zipapp to `target`, in place of what is there.

    Each module is there as source and as byte code; another Python version reads the source. The
    file is its owner's alone and appears whole or not at all. Raises OSError when the folder
    cannot be written.
    """
    _write(target, _archive(_sources()))


def pack_probe(target: Path) -> None:
    """The same with everything that the probe of a node needs, and nvidia-ml-py if it is here.

    Raises OSError.
    """
    sources = {**_sources(), **_chosen(_PROBE_MODULES), **_nvml_binding()}
    sources["__main__.py"] = _PROBE_MAIN.encode()
    # Half a second of compiling, once an inspection, spares it each node.
    _write(target, _archive(sources, zipfile.ZIP_DEFLATED))


def _write(target: Path, data: bytes) -> None:
    fd, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _sources() -> dict[str, bytes]:
    package = resources.files("hpckit")
    names = [name.partition("/")[2] for name in _SINGLE_MODULES]
    names += [
        f"injob/{entry.name}"
        for entry in package.joinpath("injob").iterdir()
        if entry.name.endswith(".py")
    ]
    sources = {f"hpckit/{name}": package.joinpath(name).read_bytes() for name in names}
    return {"__main__.py": _MAIN.encode(), **sources, **_chosen(_SAMPLER_MODULES)}


def _chosen(patterns: tuple[str, ...]) -> dict[str, bytes]:
    package = resources.files("hpckit")
    sources = {}
    for pattern in patterns:
        folder, _, choice = pattern.partition("{")
        for name in choice.rstrip("}").split(","):
            path = f"{folder}{name}.py"
            sources[f"hpckit/{path}"] = package.joinpath(path).read_bytes()
    return sources


def _nvml_binding() -> dict[str, bytes]:
    """nvidia-ml-py is one module, pynvml.py; without it the nodes say that they lack it."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        return {}
    return {"pynvml.py": Path(found.origin).read_bytes()}


def _archive(sources: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    members = dict(sources)
    for name, source in sources.items():
        members[f"{name}c"] = _byte_code(name, source)
    buffer = io.BytesIO()
    # A rank's is stored, not deflated: a few kilobytes are not worth the load of zlib in each.
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.create_system = 3
            info.external_attr = 0o600 << 16
            info.compress_type = compression
            archive.writestr(info, members[name])
    return buffer.getvalue()


def _byte_code(name: str, source: bytes) -> bytes:
    # The name inside the archive goes into the code, so no path of this machine travels along.
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    return header + marshal.dumps(code)
