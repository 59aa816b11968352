"""Which NCCL a job will load is told as the dynamic loader decides it.

The libraries are small real ELF files made by cc, in the places of the real ones: synthetic.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpckit.adapters.nccl_library import LibraryPlaces
from hpckit.app.nccl_found import find_nccl, look_at_nccl
from hpckit.errors import StorageFailed
from hpckit.model.comm import CommLibrary, NcclVersion, NetPlugin
from hpckit.model.nccl_found import FoundNccl, NcclWhere
from tests.fakes.command_runner import FakeCommandRunner
from tests.fakes.dead_files import DeadPlaces
from tests.fakes.nccl_tree import (
    RCCL_TEXT,
    nccl,
    python_environment,
    shared_library,
    torch,
    wheel,
)

TO_WHEEL = "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"
LINKED = (
    (None, False),
    (TO_WHEEL, False),
    (TO_WHEEL, True),
    ("$ORIGIN/nowhere", False),
    ("$ORIGIN/nowhere", True),
)
TOOLS = LibraryPlaces(FakeCommandRunner({}))
LOADED = """
import ctypes, json, os, sys
try:
    ctypes.CDLL(sys.argv[1])
except OSError:
    pass
with open("/proc/self/maps") as file:
    paths = {line.split()[-1] for line in file if "libnccl.so" in line}
print(json.dumps(sorted(paths)))
"""


def found_in(prefix: Path, **environment: str) -> FoundNccl:
    """What a job with this environment loads, by the Python of this folder."""
    return find_nccl(NcclWhere(environment=environment, python=str(prefix)), TOOLS)


def version_and_how(found: FoundNccl) -> tuple[str, str]:
    """The two in words."""
    assert found.chosen is not None
    return str(found.version), found.chosen.how


def test_the_loader_of_this_machine_agrees(tmp_path: Path) -> None:
    """Every mixture of RPATH, RUNPATH, LD_LIBRARY_PATH and LD_PRELOAD ends as glibc's does."""
    listed = nccl(tmp_path / "listed", "2.18.3")
    preloaded = nccl(tmp_path / "preloaded", "2.19.4", name="libnccl.so")
    broken = tmp_path / "broken" / "libnccl.so.2"
    broken.parent.mkdir()
    broken.write_text("no library\n")
    foreign = tmp_path / "foreign" / "libnccl.so.2"
    foreign.parent.mkdir()
    foreign.write_bytes(_for_machine_22(listed))
    paths = ["", "/nowhere", str(listed.parent), f"{broken.parent}:{listed.parent}"]
    paths.append(f"{foreign.parent}:{listed.parent}")
    preloads = ("", str(preloaded), "libnccl.so.2")
    ends = set()
    for number, (rpath, is_runpath) in enumerate(LINKED):
        prefix = tmp_path / str(number)
        sites = python_environment(prefix)
        wheel(sites, "2.27.3")
        asker = torch(sites, rpath=rpath, is_runpath=is_runpath)
        for library_path, preload in itertools.product(paths, preloads):
            environment = {"LD_LIBRARY_PATH": library_path, "LD_PRELOAD": preload}
            found = found_in(prefix, **environment)
            told = [str(Path(found.path).resolve())] if found.path else []
            loaded = _loaded(prefix, asker, environment)
            assert told == loaded, (rpath, is_runpath, library_path, preload, found)
            ends.add(str(found.version))
    assert ends == {"None", "2.18.3", "2.19.4", "2.27.3"}


def _for_machine_22(library: Path) -> bytes:
    data = bytearray(library.read_bytes())
    data[18:20] = (22).to_bytes(2, "little")
    return bytes(data)


def _loaded(prefix: Path, asker: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [prefix / "bin/python3", "-I", "-S", "-c", LOADED, asker],
        env={name: value for name, value in environment.items() if value},
        capture_output=True,
        text=True,
        check=True,
    )
    return [str(Path(path)) for path in json.loads(done.stdout)]


def test_pytorch_s_wheel_loads_the_nccl_wheel_beside_it(tmp_path: Path) -> None:
    """Its RPATH comes before LD_LIBRARY_PATH, and what lost is told with the reason."""
    sites = python_environment(tmp_path / "venv")
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    other = nccl(tmp_path / "lib", "2.21.5")
    found = found_in(tmp_path / "venv", LD_LIBRARY_PATH=str(other.parent))
    assert version_and_how(found) == ("2.27.3", "RPATH of libtorch_cuda.so")
    assert found.loader == "PyTorch (libtorch_cuda.so)"
    assert found.chosen is not None
    assert (found.chosen.build, found.chosen.version_from) == ("cuda12.9", "the file itself")
    (lost,) = found.others
    assert (str(lost.version), lost.lost) == ("2.21.5", "RPATH of libtorch_cuda.so comes before")


def test_a_pytorch_without_a_way_to_the_wheel_leaves_it(tmp_path: Path) -> None:
    """An NCCL wheel to which nothing leads is named, and not taken for what is loaded."""
    sites = python_environment(tmp_path)
    torch(sites, rpath=None)
    wheel(sites, "2.27.3")
    found = found_in(tmp_path)
    assert (found.chosen, found.because) == (
        None,
        "no libnccl.so.2 was found where the loader looks",
    )
    assert [one.lost for one in found.others] == ["no rule of the loader leads to it"]


def test_a_pytorch_that_has_nccl_linked_in_carries_its_version(tmp_path: Path) -> None:
    """The release is that in libtorch_cuda.so, and a preloaded one does not simply win."""
    sites = python_environment(tmp_path / "venv")
    text = "NCCL version 2.14.3+cuda11.8"
    shared_library(sites / "torch/lib/libtorch_cuda.so", text)
    preloaded = nccl(tmp_path / "lib", "2.21.5")
    found = found_in(tmp_path / "venv", LD_PRELOAD=str(preloaded))
    assert version_and_how(found) == ("2.14.3", "linked into libtorch_cuda.so")
    (lost,) = found.others
    assert lost.lost is not None
    assert "counts only if" in lost.lost


def test_a_pytorch_for_cpus_has_none(tmp_path: Path) -> None:
    """What lies on the machine is not taken for what such a job loads."""
    sites = python_environment(tmp_path / "venv")
    shared_library(sites / "torch/lib/libtorch_cpu.so")
    other = nccl(tmp_path / "lib", "2.21.5")
    found = found_in(tmp_path / "venv", LD_LIBRARY_PATH=str(other.parent))
    assert found.version is None
    assert found.because == "PyTorch here is built for CPUs: it has no NCCL and no RCCL"
    assert [str(one.version) for one in found.others] == ["2.21.5"]


def test_a_wheel_alone_is_what_a_package_there_would_open(tmp_path: Path) -> None:
    """Where no other NCCL is found, and no package whose way to one is known."""
    wheel(python_environment(tmp_path), "2.27.5")
    found = found_in(tmp_path)
    assert str(found.version) == "2.27.5"
    assert found.because.endswith("no other is here, and no package that is known to load one")
    assert found.loader == "a package that opens it by its path"
    nccl(tmp_path / "listed", "2.19.3")
    found = found_in(tmp_path, LD_LIBRARY_PATH=f"{tmp_path}/listed")
    assert version_and_how(found) == ("2.19.3", "LD_LIBRARY_PATH")


def test_a_file_that_tells_no_release_is_known_by_its_wheel_or_its_name(tmp_path: Path) -> None:
    """First the dist-info beside it, then the file's own name; else the version is not known."""
    sites = python_environment(tmp_path / "venv")
    torch(sites, rpath=TO_WHEEL)
    inside = wheel(sites, "2.26.2")
    shared_library(inside, "nothing", soname="libnccl.so.2")
    found = found_in(tmp_path / "venv")
    assert found.chosen is not None
    assert (str(found.version), found.chosen.version_from) == (
        "2.26.2",
        "the wheel beside it, nvidia_nccl_cu12-2.26.2.dist-info",
    )
    (sites / "nvidia_nccl_cu12-2.26.2.dist-info").rmdir()
    inside.rename(inside.with_name("libnccl.so.2.25.1"))
    inside.symlink_to("libnccl.so.2.25.1")
    found = found_in(tmp_path / "venv")
    assert found.chosen is not None
    assert (str(found.version), found.chosen.version_from) == ("2.25.1", "its file name")
    inside.unlink()
    inside.with_name("libnccl.so.2.25.1").rename(inside)
    found = found_in(tmp_path / "venv")
    assert found.path is not None
    assert found.version is None


def test_rocm_s_pytorch_loads_rccl(tmp_path: Path) -> None:
    """The library that its libtorch_hip.so needs, and RCCL's release."""
    sites = python_environment(tmp_path)
    text = RCCL_TEXT.format("2.22.3")
    inside = shared_library(sites / "torch/lib/librccl.so.1", text)
    shared_library(
        sites / "torch/lib/libtorch_hip.so", needed=inside, rpath="$ORIGIN", is_runpath=True
    )
    found = found_in(tmp_path)
    assert (found.library, found.version) == (CommLibrary.RCCL, NcclVersion(2, 22, 3))


def test_cupy_opens_the_wheel_by_its_path(tmp_path: Path) -> None:
    """It has no RPATH, and needs none where the wheel is there."""
    sites = python_environment(tmp_path)
    inside = wheel(sites, "2.25.1")
    shared_library(sites / "cupy_backends/cuda/libs/nccl.cpython-311.so", needed=inside)
    found = found_in(tmp_path)
    assert version_and_how(found) == ("2.25.1", "opened by its path")


def test_jax_opens_what_its_rpath_leads_to(tmp_path: Path) -> None:
    """Its plugin is linked with none, and opens it by its name; another framework is told."""
    sites = python_environment(tmp_path)
    wheel(sites, "2.25.1")
    shared_library(
        sites / "jax_plugins/xla_cuda12/xla_cuda_plugin.so", rpath="$ORIGIN/../../nvidia/nccl/lib"
    )
    found = found_in(tmp_path)
    assert version_and_how(found) == ("2.25.1", "RPATH of xla_cuda_plugin.so")
    torch(sites, rpath="$ORIGIN")
    nccl(sites / "torch/lib", "2.27.3")
    found = found_in(tmp_path)
    assert version_and_how(found) == ("2.27.3", "RPATH of libtorch_cuda.so")
    (note,) = found.notes
    assert note.startswith("JAX here would load ")
    where = NcclWhere(python=str(tmp_path), framework="jax")
    assert str(find_nccl(where, TOOLS).version) == "2.25.1"


TENSORFLOW = "tensorflow/libtensorflow_framework.so.2"
UNFILLED = "NCCL version 2.23.4+cudaCUDA_MAJOR.CUDA_MINOR"


@pytest.mark.parametrize(
    ("text", "runpath", "version", "how"),
    [
        (UNFILLED, "$ORIGIN", "2.23.4", "linked into libtensorflow_framework.so.2"),
        ("", "$ORIGIN/../nvidia/nccl/lib", "2.27.7", "RUNPATH of libtensorflow_framework.so.2"),
        ("", "$ORIGIN", None, None),
    ],
    ids=["2.19", "2.21", "for CPUs"],
)
def test_tensorflow_has_nccl_linked_in_or_opens_the_wheel(
    tmp_path: Path, text: str, runpath: str, version: str | None, how: str | None
) -> None:
    """Up to 2.19 its own, later the wheel's, and none in a build for CPUs."""
    sites = python_environment(tmp_path)
    wheel(sites, "2.27.7")
    shared_library(sites / TENSORFLOW, text, rpath=runpath, is_runpath=True)
    found = found_in(tmp_path)
    assert found.loader == "TensorFlow (libtensorflow_framework.so.2)"
    told = None if found.chosen is None else (str(found.version), found.chosen.how)
    assert told == (None if version is None else (version, how))


def test_a_program_s_own_rpath_counts(tmp_path: Path) -> None:
    """A program that is linked with NCCL, such as nccl-tests', is asked in place of Python."""
    inside = nccl(tmp_path / "lib", "2.23.4")
    shared_library(tmp_path / "bin/all_reduce_perf", needed=inside, rpath="$ORIGIN/../lib")
    where = NcclWhere(environment={"PATH": f"{tmp_path}/bin"}, program="all_reduce_perf")
    found = find_nccl(where, TOOLS)
    assert version_and_how(found) == ("2.23.4", "RPATH of all_reduce_perf")


def test_a_program_may_need_nccl_through_a_library(tmp_path: Path) -> None:
    """Such as one in C++ that is linked with PyTorch: its own RPATH counts for that library too."""
    inside = nccl(tmp_path / "nccl", "2.20.5")
    between = shared_library(tmp_path / "lib/libtorch_cuda.so", needed=inside)
    rpath = "$ORIGIN/lib:$ORIGIN/nccl"
    shared_library(tmp_path / "train", needed=between, rpath=rpath)
    found = find_nccl(NcclWhere(workdir=str(tmp_path), program="./train"), TOOLS)
    assert version_and_how(found) == ("2.20.5", "RPATH of train")
    assert found.loader == "train (libtorch_cuda.so)"


def test_a_program_without_nccl_leaves_the_word_to_python(tmp_path: Path) -> None:
    """A shell or a wrapper in front of Python loads none itself."""
    sites = python_environment(tmp_path)
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    shared_library(tmp_path / "numactl")
    where = NcclWhere(python=str(tmp_path), program=f"{tmp_path}/numactl")
    assert version_and_how(find_nccl(where, TOOLS)) == ("2.27.3", "RPATH of libtorch_cuda.so")


@pytest.mark.parametrize(
    "head",
    [
        "#!{0}/bin/python3\n",
        "#! {0}/bin/python3 -s\n",
        """#!/bin/sh\n'''exec' "{0}/bin/python3" "$0" "$@"\n""",
    ],
)
def test_a_script_names_its_python(tmp_path: Path, head: str) -> None:
    """As pip writes it into torchrun and the like: it need not be the first Python on PATH."""
    sites = python_environment(tmp_path)
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/torchrun").write_text(head.format(tmp_path))
    where = NcclWhere(environment={"PATH": f"{tmp_path}/tools:/usr/bin"}, program="torchrun")
    assert str(find_nccl(where, TOOLS).version) == "2.27.3"


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    """No Python and no library: none is chosen, and the plugin is none."""
    found = find_nccl(NcclWhere(container=str(tmp_path)), TOOLS)
    assert (found.chosen, found.others, found.net_plugin) == (None, (), NetPlugin.NONE)
    assert found.because == "no libnccl.so.2 or librccl.so.1 was found where the loader looks"


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """What a person named is not silently replaced by another."""
    with pytest.raises(StorageFailed, match="was to be the job's Python"):
        found_in(tmp_path / "nowhere")


def test_a_shim_in_python_s_place_is_told(tmp_path: Path) -> None:
    """A script may start any Python, so what it has is not known."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nexec pyenv exec python3\n")
    found = find_nccl(NcclWhere(environment={"PATH": f"{tmp_path}/bin"}), TOOLS)
    assert any("is no program but a script" in note for note in found.notes)
    (tmp_path / "bin/python3").unlink()
    (tmp_path / "bin/python3").mkdir()  # what cannot be read is not taken for one
    found = find_nccl(NcclWhere(environment={"PATH": f"{tmp_path}/bin"}), TOOLS)
    assert not any("is no program but a script" in note for note in found.notes)


@pytest.mark.parametrize(
    ("asked", "loaded"),
    [
        (None, "libnccl-net.so"),
        ("ofi", "libnccl-net-ofi.so"),
        ("libnccl-net-ofi.so", "libnccl-net-ofi.so"),
        ("gone,ofi", "libnccl-net-ofi.so"),
        ("none", None),
        ("gone", None),
    ],
)
def test_the_plugin_that_nccl_opens_is_told(
    tmp_path: Path, asked: str | None, loaded: str | None
) -> None:
    """By NCCL_NET_PLUGIN, a name or what stands behind the prefix, else libnccl-net.so."""
    sites = python_environment(tmp_path / "venv")
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    fabric = shared_library(tmp_path / "fabric/libfabric.so.1")
    shared_library(tmp_path / "net/libnccl-net-ofi.so", needed=fabric)
    shared_library(tmp_path / "net/libnccl-net.so", r"x\0IBext_v8\0")
    shared_library(tmp_path / "net/libnccl-net-none.so", r"x\0gIB\0")
    given = {"NCCL_NET_PLUGIN": asked} if asked else {}
    found = found_in(tmp_path / "venv", LD_LIBRARY_PATH=f"{tmp_path}/net", **given)
    names = [Path(one.path).name for one in found.plugins if one.is_loaded]
    assert names == ([loaded] if loaded else [])
    kinds = {Path(one.path).name: one.plugin for one in found.plugins}
    assert kinds == {
        "libnccl-net-none.so": NetPlugin.GIB,
        "libnccl-net-ofi.so": NetPlugin.AWS_OFI,
        "libnccl-net.so": NetPlugin.HPCX,
    }


def test_what_is_set_is_told_for_the_release_that_is_found(tmp_path: Path) -> None:
    """NCCL_CONF_FILE counts for 2.27, and what it sets is told with its line."""
    sites = python_environment(tmp_path / "venv")
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    (tmp_path / "conf").write_text("NCCL_IB_TC=41\nNCCL_NET_PLUGIN=none\n")
    environment = {"NCCL_CONF_FILE": f"{tmp_path}/conf", "NCCL_IB_TC": "106"}
    where = NcclWhere(environment=environment, python=f"{tmp_path}/venv")
    found, already = look_at_nccl(where, TOOLS)
    told = {one.name: (one.value, one.set_by) for one in already.settings}
    assert told["NCCL_IB_TC"] == ("106", "environment")
    assert told["NCCL_NET_PLUGIN"] == ("none", f"{tmp_path}/conf line 2")
    assert found.net_plugin is NetPlugin.NONE


def test_packages_are_looked_for_where_python_does(tmp_path: Path) -> None:
    """PYTHONPATH comes before the environment's own packages."""
    sites = python_environment(tmp_path / "venv")
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    torch(tmp_path / "other", rpath=TO_WHEEL)
    wheel(tmp_path / "other", "2.26.2")
    assert str(found_in(tmp_path / "venv").version) == "2.27.3"
    assert str(found_in(tmp_path / "venv", PYTHONPATH=f"{tmp_path}/other").version) == "2.26.2"


def test_a_pth_file_adds_folders_behind_its_own(tmp_path: Path) -> None:
    """As venvs are laid over a site's PyTorch; its import lines are not run."""
    sites = python_environment(tmp_path / "venv")
    overlaid = tmp_path / "apps/site-packages"
    torch(overlaid, rpath=TO_WHEEL)
    wheel(overlaid, "2.26.2")
    text = f"# a comment\nimport os; os.abort()\n{tmp_path}/gone\n../../../../apps/site-packages\n"
    (sites / "base.pth").write_text(text)
    assert version_and_how(found_in(tmp_path / "venv"))[0] == "2.26.2"
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    assert version_and_how(found_in(tmp_path / "venv"))[0] == "2.27.3"


def test_a_virtual_environment_shows_its_base_s_packages_where_it_says_so(tmp_path: Path) -> None:
    """include-system-site-packages adds those of the Python that it stands on."""
    base = tmp_path / "base"
    sites = python_environment(base)
    (base / "pyvenv.cfg").unlink()
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.24.3")
    python_environment(tmp_path / "venv")
    for is_open, version in (("false", "None"), ("true", "2.24.3")):
        text = f"home = {base}/bin\ninclude-system-site-packages = {is_open}\n"
        (tmp_path / "venv/pyvenv.cfg").write_text(text)
        assert str(found_in(tmp_path / "venv").version) == version


def test_a_user_s_own_packages_count_before_the_system_s(tmp_path: Path) -> None:
    """Those below ~/.local do, for the same Python, unless PYTHONNOUSERSITE is set."""
    sites = python_environment(tmp_path / "python")
    (tmp_path / "python/pyvenv.cfg").unlink()
    own = tmp_path / "home/.local" / sites.relative_to(tmp_path / "python")
    torch(own, rpath=TO_WHEEL)
    wheel(own, "2.26.2")
    home = str(tmp_path / "home")
    assert str(found_in(tmp_path / "python", HOME=home).version) == "2.26.2"
    assert found_in(tmp_path / "python", HOME=home, PYTHONNOUSERSITE="1").version is None


@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "huge", "cut"])
def test_the_loader_stops_at_a_hostile_file(tmp_path: Path, kind: str) -> None:
    """A FIFO, a folder, a link to itself, a file of a TiB of zeros: told at once, none chosen."""
    hostile = tmp_path / "hostile" / "libnccl.so.2"
    hostile.parent.mkdir()
    good = nccl(tmp_path / "good", "2.27.3")
    if kind == "fifo":
        os.mkfifo(hostile)
    elif kind == "folder":
        hostile.mkdir()
    elif kind == "loop":
        hostile.symlink_to("libnccl.so.2")
    else:
        hostile.write_bytes(b"" if kind == "huge" else good.read_bytes()[:200])
        os.truncate(hostile, 2**40 if kind == "huge" else 200)
    environment = {"LD_LIBRARY_PATH": f"{hostile.parent}:{good.parent}"}
    began_s = time.monotonic()
    found = find_nccl(NcclWhere(environment=environment), TOOLS)
    assert time.monotonic() - began_s < 2
    assert found.chosen is None
    assert found.because.startswith(f"the loader stops at {hostile}: it ")
    assert str(good) in [one.path for one in found.others]


def test_a_preloaded_file_that_is_no_library_is_passed_over(tmp_path: Path) -> None:
    """The loader warns and goes on."""
    (tmp_path / "libnccl.so.2").write_text("no library")
    good = nccl(tmp_path / "good", "2.27.3")
    environment = {"LD_PRELOAD": f"{tmp_path}/libnccl.so.2", "LD_LIBRARY_PATH": str(good.parent)}
    found = find_nccl(NcclWhere(environment=environment), TOOLS)
    assert version_and_how(found) == ("2.27.3", "LD_LIBRARY_PATH")
    assert [one.lost for one in found.others] == ["it is no shared library"]
    del environment["LD_LIBRARY_PATH"]
    found = find_nccl(NcclWhere(environment=environment), TOOLS)
    assert found.because == "no libnccl.so.2 or librccl.so.1 was found where the loader looks"


def test_packages_of_another_python_do_not_count(tmp_path: Path) -> None:
    """A prefix may hold several, each with its own."""
    python_environment(tmp_path)
    torch(tmp_path / "lib/python3.5/site-packages", rpath="$ORIGIN")
    nccl(tmp_path / "lib/python3.5/site-packages/torch/lib", "2.21.5")
    assert found_in(tmp_path).version is None


def test_a_library_of_another_processor_is_passed_over(tmp_path: Path) -> None:
    """The loader goes on to the next folder, and so does this."""
    other = nccl(tmp_path / "other", "2.21.5")
    other.write_bytes(_for_machine_22(other))
    nccl(tmp_path / "good", "2.27.3")
    environment = {"LD_LIBRARY_PATH": f"{tmp_path}/other:{tmp_path}/good"}
    found = find_nccl(NcclWhere(environment=environment), TOOLS)
    assert str(found.version) == "2.27.3"
    assert found.others[0].lost == (f"it is made for machine 22, and this is {os.uname().machine}")


def test_thousands_of_folders_are_looked_into_in_bounded_time(tmp_path: Path) -> None:
    """The first thousand are, and that there were more is told."""
    nccl(tmp_path / "last", "2.27.3")
    listed = ":".join([*(f"{tmp_path}/{at}" for at in range(5000)), f"{tmp_path}/last"])
    found = find_nccl(NcclWhere(environment={"LD_LIBRARY_PATH": listed}), TOOLS)
    assert any("only the first 1000 were looked into" in note for note in found.notes)


def test_this_python_s_own_interpreter_is_one(tmp_path: Path) -> None:
    """An interpreter is named by its path, too."""
    sites = python_environment(tmp_path)
    wheel(sites, "2.27.3")
    torch(sites, rpath=TO_WHEEL)
    assert str(found_in(tmp_path / "bin/python3").version) == "2.27.3"
    assert Path(sys.executable).exists()


def test_a_place_that_gives_no_answer_is_no_failure(tmp_path: Path) -> None:
    """None is chosen, since the loader would wait too, and each thing that was asked is told."""
    environment = {"PATH": "/dead/bin", "LD_LIBRARY_PATH": "/dead/lib", "HOME": "/dead/home"}
    where = NcclWhere(environment=environment)
    found, already = look_at_nccl(where, DeadPlaces(TOOLS, str(tmp_path)))
    assert (found.chosen, found.plugins, already.files) == (None, (), ())
    assert found.because == "the loader stops at /dead/lib/libnccl.so.2: it cannot be read"
    assert "/dead/lib/libnccl.so.2 gave no answer within 5 s" in found.notes
    assert "/etc/nccl.conf gave no answer within 5 s" in found.notes


def test_what_is_found_before_a_dead_place_is_still_told(tmp_path: Path) -> None:
    """The RPATH comes first, and what lies behind it is not needed."""
    sites = python_environment(tmp_path)
    torch(sites, rpath=TO_WHEEL)
    wheel(sites, "2.27.3")
    real = str(Path(sys.executable).resolve().parent)
    environment = {"LD_LIBRARY_PATH": "/dead/lib"}
    where = NcclWhere(environment=environment, python=str(tmp_path))
    found = find_nccl(where, DeadPlaces(TOOLS, str(tmp_path)))
    assert str(found.version) == "2.27.3"
    assert any(one.path == "/dead/lib/libnccl.so.2" for one in found.others)
    assert any(note.startswith(real) or "/dead/lib" in note for note in found.notes)
