"""Which NCCL or RCCL a job will load, how that is known, and what lost against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpckit.model.comm import CommLibrary, NcclVersion, NetPlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLibrary:
    """What the dynamic section of an ELF file says; `path` is that by which it was found.

    `machine` is the processor (`x86_64`). `rpath` and `runpath` are folders as they are written;
    `runpath` None is a file without one, which is not the same as an empty one.
    """

    path: str
    machine: str
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclBuild:
    """The release that is written in a file; `build` is what it was made for: `cuda12.9`."""

    library: CommLibrary
    version: NcclVersion
    build: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryStrings:
    """What the constants of a library tell: a release, and the names of network plugins."""

    build: NcclBuild | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclWhere:
    """Where a job runs, as far as it matters for what it loads.

    `environment` is the job's, and `set_by` says which of its keys sets a variable. `python` is a
    virtual environment, a conda prefix or an interpreter; None is that of `program`, or the first
    on PATH. `program` is what the job starts, by its name
    or path: linked with NCCL, itself or through its libraries, it counts in Python's place, and a
    script names its Python. `container` is a folder or an image (.sqsh, .sif). `framework` and
    `library` choose where there are several. `account_home` is the home folder of the account,
    which NCCL before 2.30 takes in place of HOME.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    set_by: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    program: str | None = None
    container: str | None = None
    workdir: str | None = None
    framework: str | None = None
    library: CommLibrary | None = None
    account_home: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCandidate:
    """A library that is there.

    `how` is what leads to it (`RPATH of libtorch_cuda.so`), `version_from` where its version was
    read, or why it is not known. `lost` is why it is not the one that is loaded.
    """

    library: CommLibrary
    path: str
    how: str
    version: NcclVersion | None = None
    build: str | None = None
    version_from: str = ""
    lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetPluginFile:
    """A network plugin that NCCL can find; `plugin` None is one that is not known.

    `is_loaded` is whether NCCL opens it as things are: the first of the name that it looks for.
    """

    path: str
    how: str
    plugin: NetPlugin | None = None
    is_loaded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNccl:
    """What a job will load, as far as files tell; nothing of it was executed.

    `chosen` None is that none was found, or that it cannot be told: `because` says which. `loader`
    is who asks for it: `PyTorch (libtorch_cuda.so)`. `place` is where was looked.
    """

    chosen: NcclCandidate | None
    because: str
    place: str
    loader: str | None = None
    others: tuple[NcclCandidate, ...] = ()
    plugins: tuple[NetPluginFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def version(self) -> NcclVersion | None:
        """The version that will be loaded, None where it is not known."""
        return self.chosen.version if self.chosen else None

    @property
    def library(self) -> CommLibrary | None:
        """Whose it is."""
        return self.chosen.library if self.chosen else None

    @property
    def path(self) -> str | None:
        """Where it lies; in a container, there."""
        return self.chosen.path if self.chosen else None

    @property
    def net_plugin(self) -> NetPlugin | None:
        """The plugin that NCCL opens: NONE where it opens none, None where it is not known."""
        loaded = next((one for one in self.plugins if one.is_loaded), None)
        return NetPlugin.NONE if loaded is None else loaded.plugin
