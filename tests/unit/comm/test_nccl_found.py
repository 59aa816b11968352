"""Which NCCL a job will load is known from metadata of packages and names of files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpckit.comm.library import last_loaded, look_at_nccl
from hpckit.comm.library_search import FoundNccl, NcclWhere
from hpckit.core.errors import StorageFailed
from hpckit.core.files import LocalFiles
from hpckit.slurm.values import JobEntry, JobId, JobState
from hpckit.spec.platform import CommLibrary

SITES = "lib/python3.12/site-packages"
WHEEL = "nvidia_nccl_cu12-2.27.3.dist-info"


class OwnFiles(LocalFiles):
    """A machine without a library in the default folders, whatever the one of the test has."""

    def real(self, path: str) -> str | None:
        """Return the path without links."""
        return None if path.startswith(("/lib", "/usr/lib")) else super().real(path)


def environment(prefix: Path, *metadata: str, config: str | None = "home = /usr/bin\n") -> Path:
    """An environment of Python 3.12 with these folders beside its packages; gives its prefix."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python3.12").write_text("")
    (prefix / "bin/python3").symlink_to("python3.12")
    if config is not None:
        (prefix / "pyvenv.cfg").write_text(config)
    for name in metadata:
        (prefix / SITES / name).mkdir(parents=True)
    return prefix


def library(folder: Path, real: str = "libnccl.so.2.26.2", name: str = "libnccl.so.2") -> Path:
    """A library's file, with the link to it that programs ask for; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / real).write_text("")
    if name != real:
        (folder / name).symlink_to(real)
    return folder


def found_for(python: Path | None = None, **variables: str | Path) -> FoundNccl:
    """What a job with this environment loads."""
    given = {name: str(value) for name, value in variables.items()}
    named = None if python is None else str(python)
    where = NcclWhere(environment=given, python=named, workdir="/")
    return look_at_nccl(where, OwnFiles())[0]


@pytest.mark.parametrize(
    ("metadata", "library", "version", "how"),
    [
        (WHEEL, "nccl", "2.27.3", f"the wheel {WHEEL}"),
        ("nvidia_nccl_cu13-2.28.9.post1.dist-info", "nccl", "2.28.9", "the wheel nvidia_nccl_cu13"),
        ("torch-2.9.0+rocm6.4.dist-info", "rccl", "None", "the wheel torch-2.9.0+rocm6.4"),
        ("torch-2.9.0+cu128.dist-info", None, "None", "no NCCL package in the job's Python"),
    ],
)
def test_a_wheel_tells_by_its_metadata(
    tmp_path: Path, metadata: str, library: str | None, version: str, how: str
) -> None:
    """NVIDIA's wheel says the release; ROCm's PyTorch says that it brings RCCL, and no more."""
    found = found_for(environment(tmp_path / "venv", metadata))
    assert (found.library, str(found.version)) == (library, version)
    assert found.because.startswith(how)


def test_two_wheels_in_one_place_tell_nothing(tmp_path: Path) -> None:
    """The last one that was installed is there, and which that was is not known."""
    found = found_for(environment(tmp_path / "venv", WHEEL, "nvidia_nccl_cu13-2.28.9.dist-info"))
    assert found.chosen is not None
    assert found.version is None


def test_a_conda_package_tells_by_its_metadata(tmp_path: Path) -> None:
    """As conda writes them, below conda-meta; a conda environment that is active is on PATH."""
    prefix = environment(tmp_path / "env", config=None)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta/nccl-2.26.5.1-ha44e49d_0.json").write_text("{}")
    for found in (found_for(prefix / "bin/python3"), found_for(PATH=f"{prefix}/bin:/usr/bin")):
        assert found.chosen is not None
        assert (str(found.version), found.chosen.path) == ("2.26.5", f"{prefix}/lib/libnccl.so.2")


@pytest.mark.parametrize(
    ("real", "library_name", "version"),
    [
        ("libnccl.so.2.27.5", "libnccl.so.2", "2.27.5"),
        ("libnccl.so.2", "libnccl.so.2", "None"),
        ("librccl.so.1.0.60400", "librccl.so.1", "None"),
    ],
)
def test_a_file_tells_by_its_resolved_name(
    tmp_path: Path, real: str, library_name: str, version: str
) -> None:
    """NCCL's has its release, RCCL's ROCm's in its place: not known then."""
    folder = library(tmp_path / "lib", real, library_name)
    found = found_for(LD_LIBRARY_PATH=f"/nowhere:{folder}")
    assert found.chosen is not None
    assert (found.chosen.path, found.because) == (str(folder / library_name), "LD_LIBRARY_PATH")
    assert str(found.version) == version


def test_what_python_imports_comes_before_the_list(tmp_path: Path) -> None:
    """Wheels of frameworks lead to the NCCL beside them; the other one is named."""
    prefix = environment(tmp_path / "venv", WHEEL)
    folder = library(tmp_path / "lib")
    found = found_for(prefix, LD_LIBRARY_PATH=folder)
    assert str(found.version) == "2.27.3"
    assert [(str(one.version), one.lost) for one in found.others] == [
        ("2.26.2", f"the wheel {WHEEL} comes first")
    ]


def test_packages_are_looked_for_where_python_does(tmp_path: Path) -> None:
    """PYTHONPATH, the environment, then what it stands on where it shows that; the user's own."""
    base = environment(tmp_path / "base", WHEEL, config=None)
    shows = "include-system-site-packages = true\n"
    (tmp_path / "path" / WHEEL.replace("27.3", "20.5")).mkdir(parents=True)
    (tmp_path / "home/.local" / SITES / WHEEL.replace("27.3", "21.5")).mkdir(parents=True)
    opened = environment(tmp_path / "open", config=shows)
    closed = environment(tmp_path / "closed", config=shows.replace("true", "false"))
    for own in (opened / "bin/python3", closed / "bin/python3"):
        own.unlink()
        own.symlink_to(base / "bin/python3.12")
    assert str(found_for(opened).version) == "2.27.3"
    assert str(found_for(closed).version) == "None"
    assert str(found_for(opened, HOME=tmp_path / "home").version) == "2.21.5"
    alone = found_for(opened, HOME=tmp_path / "home", PYTHONNOUSERSITE="1")
    assert str(alone.version) == "2.27.3"
    assert str(found_for(closed, PYTHONPATH=tmp_path / "path").version) == "2.20.5"


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """What a person named is not silently replaced by another."""
    with pytest.raises(StorageFailed, match="the job's Python is missing"):
        found_for(tmp_path / "nowhere")


def test_what_is_set_is_told_for_the_release_that_is_found(tmp_path: Path) -> None:
    """NCCL_CONF_FILE counts for 2.27, and what it sets is told with its line."""
    prefix = environment(tmp_path / "venv", WHEEL)
    (tmp_path / "conf").write_text("NCCL_IB_TC=41\nNCCL_NET_PLUGIN=none\n")
    variables = {"NCCL_CONF_FILE": f"{tmp_path}/conf", "NCCL_IB_TC": "106"}
    where = NcclWhere(environment=variables, python=str(prefix))
    found, already = look_at_nccl(where, OwnFiles())
    settings = {one.name: (one.value, one.set_by) for one in already.settings}
    assert found.library is CommLibrary.NCCL
    assert settings["NCCL_IB_TC"] == ("106", "environment")
    assert settings["NCCL_NET_PLUGIN"] == ("none", f"{tmp_path}/conf line 2")


def test_what_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    """A FIFO in a file's place, and a link to itself, end nothing and are named."""
    os.mkfifo(tmp_path / "conf")
    (tmp_path / "libnccl.so.2").symlink_to("libnccl.so.2")
    found = found_for(LD_LIBRARY_PATH=tmp_path, NCCL_CONF_FILE=tmp_path / "conf")
    assert found.chosen is None
    assert [note.partition(" cannot")[0] for note in found.notes] == [
        f"{tmp_path}/libnccl.so.2",
        f"{tmp_path}/conf",
    ]


def test_the_last_job_of_a_name_tells_what_it_had_loaded(tmp_path: Path) -> None:
    """By rank 0's ledger; one without such a line, or that is cut short, tells nothing."""
    record = {"record": "library", "path": "/x/libnccl.so.2.27.5", "release": "2.27.5"}
    lines = {"a": json.dumps({"record": "start"}), "b": json.dumps(record), "c": '{"library"'}
    for name, line in lines.items():
        account = tmp_path / name / "account/restart-0"
        account.mkdir(parents=True)
        (account / "rank-0.ledger").write_text(line)
    jobs = [
        JobEntry(
            submission=folder, job_id=JobId(folder), name=name, site="s",
            folder=str(tmp_path / folder), created_s=0, state=JobState.COMPLETED,
        )
        for name, folder in (("y", "b"), ("x", "a"), ("x", "c"), ("x", "b"), ("x", "gone"))
    ]  # fmt: skip
    found = last_loaded("x", jobs, LocalFiles())
    assert found is not None
    assert (str(found.version), found.path) == ("2.27.5", "/x/libnccl.so.2.27.5")
    assert found.how == "rank 0 of job b, the latest with this name"
    assert last_loaded("z", jobs, LocalFiles()) is None
