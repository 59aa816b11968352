"""The zipapp that carries hpckit's in-job code to the compute nodes.

Three parts of one file, each as sources and as byte code, which knows lines and not columns
(hpckit.adapters.code_lines). What a rank runs is stored: a few kilobytes are not worth the load of
zlib in each. What the sampler runs besides is deflated. The byte code of either is one member
(hpckit.adapters.code_members). What the probe of a node runs besides, and what orders nodes, lies
in a zip file of its own within (hpckit.adapters.inner_zip): a rank reads the directory of all
members, and these are more than its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpckit import __version__
from hpckit.adapters.agent_cache import AgentCache
from hpckit.adapters.code_lines import without_columns
from hpckit.adapters.code_members import MORE_CODE, RANK_CODE
from hpckit.adapters.inner_zip import INNER_ZIP

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANK_MODULES: Final = (
    "{__init__}",
    "adapters/{__init__,amd_energy,c_library,code_members,nvml_calls,nvml_devices}",
    "decide/{__init__,rendezvous}",
    "model/{__init__,account_files,place_files}",
)
# What the sampler imports besides; a test runs it from the archive.
_SAMPLER_MODULES: Final = (
    "adapters/{amd_counters,cgroup_counters,held_file,host_counters,inner_zip,job_counters}",
    "adapters/{job_processes,job_watch,node_counters,nvml_counters,nvml_direct,nvml_fields,nvml_gpm}",
    "adapters/{nvml_shown,nvml_slow,sample_clock,sample_copier,sample_guard,sample_spool}",
    "app/{__init__,sample}",
    "decide/{sampled_gpus}",
    "model/{samples}",
    "parse/{__init__,cgroup,mountinfo,process_stat,slurm_node}",
    "{sample_ports}",
)
# What the probe imports besides; a test runs it from the archive.
_PROBE_MODULES: Final = (
    "adapters/{node_file,nvml,nvml_links,nvml_session,regular_file,sysfs}",
    "app/{inspect}",
    "decide/{binding,binding_cpus,binding_gpus,binding_nics,binding_places,binding_shares}",
    "decide/{binding_split,least_cost}",
    "decide/{placement_bounds,placement_groups,placement_instance,placement_loads}",
    "decide/{placement_order,placement_packing,placement_pin,placement_request}",
    "decide/{placement_search,traffic}",
    "decide/{complete,finding_rule,merge,merge_pci,nic_nearness,nic_roles}",
    "decide/{paths,paths_devices,paths_nccl,pci_tree}",
    "model/{binding,file_tree,gpu_ids,hardware,hostlist,index_list,nic_kind,node_finding,nvml_reading}",
    "model/{locality,mesh,order_plan,words}",
    "model/{link_rates,nic_ids,nic_state,node_limits,path,pci,pci_vendors,rules,tree}",
    "parse/{excerpt,infiniband,kfd,kfd_files,kfd_ids,linked_paths,node_file,probe_answer}",
    "parse/{nvml,nvml_gpu,nvml_links,nvml_words,sysfs,sysfs_cpu,sysfs_cpuinfo,sysfs_devices}",
    "parse/{sysfs_net,sysfs_numa,sysfs_patterns,sysfs_pci,sysfs_pci_config,sysfs_tree,xgmi}",
    "{errors,units}",
)
_FIRST: Final = (
    "__main__.py",
    "hpckit/__init__.py",
    "hpckit/adapters/__init__.py",
    "hpckit/adapters/code_members.py",
)
"""What zipimport itself loads, in files of byte code."""
_NOT_A_RANKS: Final = (
    "bind_plan",
    "order",
    "probe",
    "run",
    "run_commands",
    "sample",
    "sample_parts",
    "topology",
    "topology_process",
)
"""Modules of hpckit.injob that no rank imports."""
# This one file is read by whatever Python the node has, so it keeps to the syntax of Python 3.6,
# and a rank whose Python is too old for the rest still runs its command.
_NEW_ENOUGH = """\
import sys

if sys.version_info >= (3, 11):
    from hpckit.adapters.code_members import use_code_members

    use_code_members()
    from hpckit.injob.main import main

    sys.exit(main(sys.argv[1:]))

"""
_MAIN = (
    _NEW_ENOUGH
    + """\
import os
import signal

what = "the probe" if sys.argv[1:2] == ["probe"] else "the job's entry"
version = sys.version.split()[0]
sys.stderr.write("hpckit: %s needs Python 3.11, this is %s\\n" % (what, version))
sys.stderr.flush()
command = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
if not command:
    sys.exit(2)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.stderr.write("hpckit: cannot run %s: %s\\n" % (command[0], error.strerror))
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
)
_LAYOUT = 5
"""Another one, and what was packed before is not used."""
# PEP 552: bit 0 marks a hash-based file, bit 1 (not set) asks for a check against the source.
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack_injob(target: Path, cache: Path | None = None) -> None:
    """Write the in-job zipapp to `target`, in place of what is there.

    Each module is there as source and as byte code; another Python version reads the source. With
    them goes nvidia-ml-py, if it is here, for the probe. The file is its owner's alone and appears
    whole or not at all. What was packed is kept in the folder `cache`, and taken from there while
    neither the sources nor Python change. Raises OSError when the folder of `target` cannot be
    written.
    """
    parts = _Parts()
    kept = AgentCache(cache, parts.key()) if cache is not None else None
    data = kept.read() if kept is not None else None
    if data is None:
        data = parts.archive()
        if kept is not None:
            kept.write(data)
    _write(target, data)


class _Parts:
    """The sources of the three parts."""

    def __init__(self) -> None:
        self._rank = {"__main__.py": _MAIN.encode(), **_chosen(_RANK_MODULES)}
        self._sampler = _chosen(_SAMPLER_MODULES)
        for path, source in _injob().items():
            part = self._sampler if Path(path).stem in _NOT_A_RANKS else self._rank
            part[path] = source
        self._probe = {**_chosen(_PROBE_MODULES), **_nvml_binding()}

    def key(self) -> str:
        """A digest of all that the archive depends on."""
        digest = hashlib.sha256(importlib.util.MAGIC_NUMBER + f"{_LAYOUT} {__version__}".encode())
        for part in (self._rank, self._sampler, self._probe):
            for name, source in part.items():
                digest.update(f"\0{name}\0{len(source)}\0".encode())
                digest.update(source)
        return digest.hexdigest()

    def archive(self) -> bytes:
        """The file."""
        first = {name: self._rank[name] for name in _FIRST}
        ranks = {name: source for name, source in self._rank.items() if name not in _FIRST}
        stored = {
            **self._rank,
            **_files_of_code(first),
            RANK_CODE: _member_of_code(ranks),
        }
        # Deflated as one it is a sixth smaller than with each of its members deflated.
        probe = _zipped({**self._probe, **_files_of_code(self._probe)}, {})
        more = {MORE_CODE: _member_of_code(self._sampler), INNER_ZIP: probe}
        return _zipped(stored, {**self._sampler, **more})


def _injob() -> dict[str, bytes]:
    return {
        f"hpckit/injob/{entry.name}": entry.read_bytes()
        for entry in sorted(
            resources.files("hpckit").joinpath("injob").iterdir(), key=lambda one: one.name
        )
        if entry.name.endswith(".py")
    }


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


def _member_of_code(sources: Mapping[str, bytes]) -> bytes:
    import marshal

    return marshal.dumps({name: _byte_code(name, sources[name]) for name in sorted(sources)})


def _files_of_code(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    return {
        f"{name}c": importlib.util.MAGIC_NUMBER
        + _UNCHECKED_HASH
        + importlib.util.source_hash(source)
        + _byte_code(name, source)
        for name, source in sources.items()
    }


def _byte_code(name: str, source: bytes) -> bytes:
    import marshal

    # The name inside the archive goes into the code, so no path of this machine travels along, and
    # no docstrings do: nobody asks a rank for help.
    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    return marshal.dumps(without_columns(code))


def _zipped(stored: Mapping[str, bytes], deflated: Mapping[str, bytes]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted({**stored, **deflated}):
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.create_system = 3
            info.external_attr = 0o600 << 16
            is_stored = name in stored
            info.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
            data = stored[name] if is_stored else deflated[name]
            archive.writestr(info, data, compresslevel=None if is_stored else 9)
    return buffer.getvalue()


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
