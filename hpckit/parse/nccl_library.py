"""What the files of NCCL, RCCL and of those that load them say: releases, names, plugins.

Each table has its sources; PyTorch, JAX, TensorFlow and CuPy were read from their wheels of 2026-11
(torch 2.15.0, jax-cuda12-pjrt 0.12.0.1, tensorflow 2.19.0 and 2.21.0, cupy-cuda12x 14.2.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from hpckit.model.comm import CommLibrary, NcclVersion, NetPlugin
from hpckit.model.nccl_found import LibraryStrings, NcclBuild, SharedLibrary
from hpckit.parse.elf import ReadAt, constants

SONAMES: Final = {CommLibrary.NCCL: "libnccl.so.2", CommLibrary.RCCL: "librccl.so.1"}
"""Under which a program asks for them: NCCL's src/Makefile, RCCL's CMakeLists.txt."""

LIBRARY_PREFIXES: Final = ("libnccl.so", "librccl.so")
PLUGIN_PREFIXES: Final = ("libnccl-net", "librccl-net")

_CHUNK_BYTES: Final = 4 * 1024**2
_OVERLAP_BYTES: Final = 256
# NCCL src/init.cc, VERSION_STRING, 2.4 to 2.30 (TensorFlow 2.19 leaves CUDA's unfilled); RCCL has
# `+hip` up to ROCm 6.2, then `version :`.
_NCCL: Final = re.compile(
    rb"NCCL version (\d{1,2}\.\d{1,2}\.\d{1,3})[^\0+]{0,32}"
    rb"\+(?:(cuda[\d.]{1,8})|cudaCUDA_MAJOR\.CUDA_MINOR)\0"
)
_RCCL: Final = re.compile(rb"RCCL version (?:: )?(\d{1,2}\.\d{1,2}\.\d{1,3})(?:\+(hip[\d.]{1,8}))?")
_WHEEL: Final = re.compile(
    r"nvidia_nccl_(cu\d+)-(\d+\.\d+\.\d+)(?:\.post\d+)?\.dist-info", re.ASCII
)
_FILE_NAME: Final = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)", re.ASCII)
_IN_WHEEL: Final = "/nvidia/nccl/lib/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A file of a Python package that loads NCCL or RCCL, by its path from site-packages.

    `name` may hold a `*`. `loaders` are the package's own files through which it is loaded, the
    next one first: their RPATH counts, too. `opens` is what it opens itself where it is linked with
    none; with `path_has`, only where that stands in its RPATH or RUNPATH, which a build for CPUs
    lacks. `first` is what the package opens before by its path, from site-packages.
    """

    framework: str
    library: CommLibrary
    folder: str
    name: str
    loaders: tuple[str, ...] = ()
    opens: str | None = None
    path_has: str = ""
    first: tuple[str, ...] = ()
    source: str


_TORCH_LOADERS: Final = ("torch/lib/libtorch.so", "torch/lib/libtorch_python.so")
CONSUMERS: Final = (
    Consumer(
        framework="PyTorch",
        library=CommLibrary.NCCL,
        folder="torch/lib",
        name="libtorch_cuda.so",
        loaders=_TORCH_LOADERS,
        source="torch 2.15.0: DT_RPATH $ORIGIN/../../nvidia/nccl/lib (pytorch/builder#1150)",
    ),
    Consumer(
        framework="PyTorch",
        library=CommLibrary.RCCL,
        folder="torch/lib",
        name="libtorch_hip.so",
        loaders=_TORCH_LOADERS,
        source="pytorch/builder#1468: RUNPATH in ROCm wheels, so that LD_LIBRARY_PATH wins",
    ),
    Consumer(
        framework="JAX",
        library=CommLibrary.NCCL,
        folder="jax_plugins/xla_cuda13",
        name="xla_cuda_plugin.so",
        opens=SONAMES[CommLibrary.NCCL],
        source="as for CUDA 12",
    ),
    Consumer(
        framework="JAX",
        library=CommLibrary.NCCL,
        folder="jax_plugins/xla_cuda12",
        name="xla_cuda_plugin.so",
        opens=SONAMES[CommLibrary.NCCL],
        source="jax-cuda12-pjrt 0.12.0.1: DT_RPATH $ORIGIN/../../nvidia/nccl/lib, no NEEDED",
    ),
    Consumer(
        framework="TensorFlow",
        library=CommLibrary.NCCL,
        folder="tensorflow",
        name="libtensorflow_framework.so.2",
        opens=SONAMES[CommLibrary.NCCL],
        path_has="/nvidia/nccl/lib",
        source="tensorflow 2.19: NCCL 2.23.4 linked in; 2.21: RUNPATH $ORIGIN/../nvidia/nccl/lib",
    ),
    Consumer(
        framework="CuPy",
        library=CommLibrary.NCCL,
        folder="cupy_backends/cuda/libs",
        name="nccl.*.so",
        first=("nvidia/nccl/lib/libnccl.so.2",),
        source="cupy-cuda12x 14.2.0: no RPATH; cupy/_environment.py opens the wheel's library",
    ),
)
"""In the order in which one is taken for the job's, where it does not say."""

TORCH_CPU: Final = "torch/lib/libtorch_cpu.so"
"""Every PyTorch has it; one with neither of the others is built for CPUs and has no NCCL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFact:
    """How a network plugin is told: by its file's name, what it needs, a constant, or its folder.

    Each is enough; an empty one tells nothing.
    """

    plugin: NetPlugin
    names: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    mark: bytes = b""
    folder: str = ""
    source: str


PLUGINS: Final = (
    PluginFact(
        plugin=NetPlugin.GIB,
        mark=b"\0gIB\0",
        folder="/gib/",
        source="Google Cloud: NCCL_NET=gIB, /usr/local/gib/lib64",
    ),
    PluginFact(
        plugin=NetPlugin.TCPXO,
        mark=b"\0FasTrak\0",
        folder="/fastrak/",
        source="Google Cloud: NCCL_NET=FasTrak, /var/lib/fastrak",
    ),
    PluginFact(
        plugin=NetPlugin.TCPX,
        mark=b"\0GPUDirectTCPX",
        folder="/tcpx/",
        source="Google Cloud: NCCL_NET=GPUDirectTCPX_v7",
    ),
    PluginFact(
        plugin=NetPlugin.AWS_OFI,
        names=("-net-ofi.so", "-net-aws-ofi.so"),
        needed=("libfabric.so",),
        mark=b"\0AWS Libfabric\0",
        source="aws-ofi-nccl src/Makefile.am, nccl_ofi_interface_nvidia.cpp, 1.21",
    ),
    PluginFact(
        plugin=NetPlugin.HPCX,
        needed=("libucp.so", "libsharp_coll.so"),
        mark=b"\0IBext",
        folder="/nccl_rdma_sharp_plugin/",
        source="Mellanox/nccl-rdma-sharp-plugins: IBext, SHARP, UCX",
    ),
)


def library_strings(read: ReadAt, path: str) -> LibraryStrings:
    """The release in a library's constants, and the marks of PLUGINS; raises ParseError.

    It reads no more than the constants: some MiB of a file of half a GB.
    """
    build: NcclBuild | None = None
    marks: set[bytes] = set()
    for extent in constants(read, path):
        for at in range(0, extent.size, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES + _OVERLAP_BYTES, extent.size - at)
            data = read(extent.offset + at, size)
            build = build or _build(data)
            marks.update(fact.mark for fact in PLUGINS if fact.mark and fact.mark in data)
            if len(data) < size:
                break
    told = tuple(sorted(mark.strip(b"\0").decode() for mark in marks))
    return LibraryStrings(build=build, marks=told)


def _build(data: bytes) -> NcclBuild | None:
    for library, expression in ((CommLibrary.RCCL, _RCCL), (CommLibrary.NCCL, _NCCL)):
        found = expression.search(data)
        if found is not None:
            version = NcclVersion.of(found[1].decode())
            made_for = found[2].decode() if found[2] else None
            return NcclBuild(library=library, version=version, build=made_for)
    return None


def plugin_of(library: SharedLibrary, real_path: str, marks: tuple[str, ...]) -> NetPlugin | None:
    """Which network plugin a file is; None where nothing tells."""
    for fact in PLUGINS:
        if (
            library.path.endswith(fact.names or "\0")
            or any(need.startswith(fact.needed or "\0") for need in library.needed)
            or (fact.mark and fact.mark.strip(b"\0").decode() in marks)
            or (fact.folder and fact.folder in real_path)
        ):
            return fact.plugin
    return None


def library_of(path: str) -> CommLibrary:
    """Whose library a file's name says it is."""
    is_rccl = PurePosixPath(path).name.startswith("librccl")
    return CommLibrary.RCCL if is_rccl else CommLibrary.NCCL


def wheel_version(names: tuple[str, ...]) -> tuple[NcclVersion, str] | None:
    """The release of the NCCL wheel among the names of site-packages, and that name.

    None where there is none, or more than one: both lie in the same place, and the last one that
    was installed is there.
    """
    found = [match for name in names if (match := _WHEEL.fullmatch(name)) is not None]
    if len(found) != 1:
        return None
    return NcclVersion.of(found[0][2]), found[0][0]


def wheel_root(path: str) -> str | None:
    """The site-packages of a library that lies where the NCCL wheel puts it."""
    root, inside, _ = path.rpartition(_IN_WHEEL)
    return root if inside else None


def name_version(real_path: str) -> NcclVersion | None:
    """The release in a file's name, such as libnccl.so.2.27.3; RCCL's has ROCm's there."""
    found = _FILE_NAME.fullmatch(PurePosixPath(real_path).name)
    return NcclVersion.of(found[1]) if found else None
