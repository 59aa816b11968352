"""The zipapp that submit packs, and its cache, which is the user's alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hpckit.injob.archive import MOST_KEPT, AgentCache, pack_injob
from hpckit.node.probe import AnswerReader

RANK = ("rank", "--from", "slurm", "--")


def version_of(python: str) -> tuple[int, ...]:
    """The interpreter's version, (0,) when it does not run."""
    code = "import sys; sys.stdout.write('%d %d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, check=False)
    return tuple(map(int, done.stdout.split())) or (0,)


def another_python(low: tuple[int, int], high: tuple[int, int]) -> str:
    """An interpreter with low <= version < high that is not this one's version, or a skip."""
    roots = [Path(folder) for folder in os.get_exec_path()]
    roots += sorted(Path(sys.base_prefix).parent.glob("*/bin"))
    for root in roots:
        for path in sorted(root.glob("python3*")):
            if path.name.removeprefix("python3").strip(".0123456789"):
                continue
            version = version_of(str(path))
            if low <= version < high and version != sys.version_info[:2]:
                return str(path)
    pytest.skip(f"no other Python of version {low} up to {high} on this machine")


def without_sources(archive: Path, target: Path) -> Path:
    """The same archive with its byte code alone."""
    with zipfile.ZipFile(archive) as whole, zipfile.ZipFile(target, "w") as half:
        for name in whole.namelist():
            if not name.endswith(".py"):
                half.writestr(name, whole.read(name))
    return target


def test_archive_holds_sources_and_byte_code(archive: Path) -> None:
    """Each module is there as source and as byte code, and the whole is below a megabyte."""
    names = zipfile.ZipFile(archive).namelist()
    assert names == sorted(names)
    sources = [name for name in names if name.endswith(".py")]
    assert names == sorted([*sources, *(f"{name}c" for name in sources)])
    assert {"__main__.py", "hpckit/injob/main.py", "pynvml.py"} <= set(sources)
    assert not any(name.startswith("hpckit/cli/") for name in sources)
    assert archive.stat().st_size < 1_000_000
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    # Hash-based and unchecked: PEP 552.
    whole = zipfile.ZipFile(archive)
    assert {whole.read(f"{name}c")[4:8] for name in sources} == {b"\x01\0\0\0"}


def test_what_was_packed_is_taken_from_the_cache(tmp_path: Path) -> None:
    """The same bytes come from the one file in the folder; a damaged one is packed again."""
    cache, target, digest_bytes = tmp_path / "cache", tmp_path / "job.pyz", 32
    pack_injob(target, cache)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    assert whole[digest_bytes:] == target.read_bytes()
    for data in (whole, whole[:-1]):
        kept.write_bytes(data)
        pack_injob(target, cache)
        assert kept.read_bytes()[digest_bytes:] == target.read_bytes()
        assert zipfile.ZipFile(target).testzip() is None


def test_no_path_of_the_packing_machine_travels_along(archive: Path) -> None:
    """Tracebacks name the file inside the archive, wherever it was packed."""
    root = os.fsencode(Path(__file__).parents[3])
    assert root not in archive.read_bytes()
    assert os.fsencode(Path.home()) not in archive.read_bytes()


@pytest.mark.parametrize(
    "words",
    [(*RANK, "true"), ("sample", "--out", ".", "--duration", "0.01"), ("port", "--job-id", "5")],
)
def test_byte_code_is_what_runs(archive: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The same Python runs an archive whose sources are gone: it compiles nothing."""
    (tmp_path / "logs").mkdir()
    env = {"PATH": os.environ["PATH"], "SLURM_PROCID": "0", "SLURMD_NODENAME": "n1"}
    env |= {"HPCKIT_JOB_FOLDER": str(tmp_path), "HPCKIT_LEDGER": "1"}
    stripped = without_sources(archive, tmp_path / "stripped.pyz")
    argv = [sys.executable, "-I", str(stripped), *words]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_a_rank_loads_is_stored_and_light(archive: Path, tmp_path: Path) -> None:
    """A rank with a ledger and a place loads no zlib, nor what takes longer than its work."""
    (tmp_path / "logs").mkdir()
    env = {"PATH": os.environ["PATH"], "SLURM_PROCID": "1", "SLURM_LOCALID": "0"}
    env |= {"HPCKIT_JOB_FOLDER": str(tmp_path), "HPCKIT_LEDGER": "1"}
    env |= {"HPCKIT_PLACE": str(tmp_path / "place")}
    words = [sys.executable, "-I", "-S", "-X", "importtime", str(archive), *RANK, "true"]
    log = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stderr
    entry = log[log.index("hpckit") :]
    loaded = {line.rpartition("|")[2].strip() for line in entry.splitlines()}
    assert {"hpckit.injob.ledger", "hpckit.binding.in_job", "ctypes"} <= loaded
    slow = {"dataclasses", "enum", "json", "logging", "pathlib", "re", "threading", "typing"}
    assert not {*slow, "zlib"} & loaded
    assert len((tmp_path / "account" / "restart-0" / "rank-1.ledger").read_text().splitlines()) == 2


def test_another_version_reads_the_sources(archive: Path, tmp_path: Path) -> None:
    """A compute node's other Python version runs the archive all the same."""
    python = another_python((3, 11), (4, 0))
    (tmp_path / "logs").mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "SLURM_PROCID": "0",
        "HPCKIT_JOB_FOLDER": str(tmp_path),
    }
    words = [python, "-I", str(archive), *RANK, "sh", "-c", "echo ran; exit 3"]
    done = subprocess.run(words, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"ran\n", b"")
    assert (tmp_path / "logs" / "rank-0.log").read_bytes() == b"ran\n"
    port = subprocess.run([python, "-I", str(archive), "port", "--job-id", "5"], check=False)
    assert port.returncode == 0


def test_a_python_too_old_still_runs_the_command(archive: Path) -> None:
    """A node whose Python is too old gives one warning, and the plain command runs."""
    python = another_python((3, 6), (3, 11))
    env = {"PATH": os.environ["PATH"], "SLURM_PROCID": "0"}
    words = [python, "-I", str(archive), *RANK]
    done = subprocess.run([*words, "sh", "-c", "exit 3"], env=env, capture_output=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith(b"hpckit: the job's entry needs Python 3.11, this is 3.")
    assert done.stderr.count(b"\n") == 1
    missing = subprocess.run([*words, "no-such"], env=env, capture_output=True, check=False)
    assert missing.returncode == 127
    probing = [python, "-I", str(archive), "probe", "20"]
    probe = subprocess.run(probing, capture_output=True, check=False)
    assert probe.returncode == 2
    assert probe.stderr.startswith(b"hpckit: the probe needs Python 3.11, this is 3.")


def in_image(
    archive: Path, folder: Path, *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """What `sh ARCHIVE rank ...` does where there is no Python but in `folder`."""
    (folder / "waiting").touch()
    for name in ("rm", "sh", "echo"):
        (folder / name).symlink_to(f"/bin/{name}")
    env = {"PATH": str(folder), "SLURM_PROCID": "0", "HPCKIT_PLACE": str(folder), **more}
    argv = ["/bin/sh", str(archive), "rank", "--from", "slurm", *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def test_in_an_image_its_own_python_takes_the_rank(archive: Path, tmp_path: Path) -> None:
    """Whatever Python the node has."""
    (tmp_path / "python3").symlink_to(sys.executable)
    done = in_image(archive, tmp_path, "--", "sh", "-c", "echo $RANK; exit 3")
    assert (done.returncode, done.stdout) == (3, "0\n")


def test_in_an_image_without_python_the_command_runs(archive: Path, tmp_path: Path) -> None:
    """By itself, with its number, and the runner knows that it began."""
    done = in_image(archive, tmp_path, "--", "sh", "-c", "echo $RANK; exit 3")
    assert (done.returncode, done.stdout) == (3, "0\n")
    assert done.stderr == "hpckit: no Python 3.11 in the image\n"
    assert not (tmp_path / "waiting").exists()


def test_what_needs_the_entry_does_not_start_without(archive: Path, tmp_path: Path) -> None:
    """TensorFlow's and Ray's ranks would not find each other, and nothing could be proved."""
    done = in_image(archive, tmp_path, "--tf-config", "--", "sh", "-c", "echo $RANK")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("name", ["HPCKIT_STRICT", "HPCKIT_RANK_MAP"])
def test_what_the_entry_has_to_see_to(archive: Path, tmp_path: Path, name: str) -> None:
    """A proof that was asked for, or numbers that are not Slurm's."""
    done = in_image(archive, tmp_path, "--", "echo", "ran", **{name: "1"})
    assert (done.returncode, done.stdout) == (1, "")


def test_the_probe_has_all_that_it_needs(archive: Path) -> None:
    """It runs apart from the checkout and its environment, and its answer is one that is read."""
    env = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "c1"}
    words = [sys.executable, "-I", "-S", str(archive), "probe", "20"]
    done = subprocess.run(words, env=env, cwd="/", capture_output=True, text=True, check=True)
    reader = AnswerReader(["c1"])
    (found,) = [one for line in done.stdout.splitlines() if (one := reader.read(line)) is not None]
    node, document = found
    assert node == "c1"
    assert document is not None
    assert b'"is_live":true' in document


@pytest.mark.parametrize("words", [["-1"], ["x"], ["٣"], ["1", "2"]])
def test_the_probe_takes_seconds_alone(archive: Path, words: list[str]) -> None:
    """Anything else is a wrong command line."""
    command = [sys.executable, "-I", str(archive), "probe", *words]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place for a cache."""
    return tmp_path / "cache"


def kept_file(folder: Path) -> Path:
    """The one file of a cache that keeps `b"code"` under the key `a`."""
    AgentCache(folder, "a").write(b"code")
    (kept,) = folder.iterdir()
    return kept


def test_what_was_kept_comes_back(folder: Path) -> None:
    """Under their key alone, and from a file that nobody else may write: it is the user's code."""
    kept = kept_file(folder)
    assert AgentCache(folder, "a").read() == b"code"
    assert AgentCache(folder, "b").read() is None
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    for mode in (0o620, 0o602, 0o666):
        kept.chmod(mode)
        assert AgentCache(folder, "a").read() is None


@pytest.mark.parametrize("damage", [b"", b"code", b"code" * 9])
def test_what_is_damaged_is_not_taken(folder: Path, damage: bytes) -> None:
    """Bytes without their digest are none."""
    kept_file(folder).write_bytes(damage)
    assert AgentCache(folder, "a").read() is None


def test_links_and_fifos_are_not_taken(folder: Path) -> None:
    """Neither is followed or waited for."""
    kept = kept_file(folder)
    kept.rename(folder / "elsewhere")
    kept.symlink_to(folder / "elsewhere")
    assert AgentCache(folder, "a").read() is None
    kept.unlink()
    os.mkfifo(kept)
    assert AgentCache(folder, "a").read() is None


@pytest.mark.parametrize("place", ["file", "file/below", "n" * 300])
def test_a_place_that_cannot_be_a_folder_costs_only_time(folder: Path, place: str) -> None:
    """Nothing is kept there, and nothing is said."""
    folder.mkdir()
    (folder / "file").touch()
    AgentCache(folder / place, "a").write(b"code")
    assert AgentCache(folder / place, "a").read() is None
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_few_are_kept(folder: Path) -> None:
    """Of many versions the oldest go."""
    for at in range(MOST_KEPT + 3):
        AgentCache(folder, str(at)).write(b"code")
        os.utime(folder / f"injob-{at}.pyz", (at, at))
    left = {path.name for path in folder.iterdir()}
    assert len(left) == MOST_KEPT
    assert f"injob-{MOST_KEPT + 2}.pyz" in left
    assert "injob-0.pyz" not in left
