"""A file outside a job: there when all of it is, else what was there before."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shlex
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Final, Protocol, TypeVar

import hpckit
from hpckit.core.errors import StorageFailed
from hpckit.core.files_in_job import open_regular, read_regular
from hpckit.core.trust import must_be_ours


class Clock(Protocol):
    """Time, so that waiting can be tested without waiting."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class SystemClock:
    """Wall-clock time and real sleeping."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(seconds)


def dead_link(path: Path) -> tuple[str, str] | None:
    """What the first such link on the way to `path` is, and what to do; None where none is."""
    for part in (*reversed(path.parents), path):
        why = _why_dead(part) if os.path.islink(part) else None  # noqa: PTH114  this one never raises
        if why is None:
            continue
        if why == errno.ELOOP:
            return f"{part} is a symbolic link to itself", f"rm {shlex.quote(str(part))}"
        target = os.path.realpath(part)
        return f"{part} is a symbolic link to {target}, which does not exist", (
            f"mkdir -p {shlex.quote(target)} first, or rm {shlex.quote(str(part))}"
        )
    return None


def space_hint(error: OSError, path: Path) -> str | None:
    """Return what shows whether a disk or a quota is full; None for another error."""
    return space_words(path) if error.errno in (errno.ENOSPC, errno.EDQUOT) else None


def space_words(path: Path) -> str:
    """Return what shows how full the disk and the quota of a path are."""
    there = next((str(one) for one in path.parents if os.path.ismount(one)), "/")
    return f"free space or quota there: df -h {shlex.quote(there)}; quota -s"


def not_written(path: Path, error: OSError) -> StorageFailed:
    """Return the error about a file that could not be written."""
    hint = space_hint(error, path)
    return StorageFailed(f"{path} cannot be written: {error.strerror}", hint=hint)


def _why_dead(link: Path) -> int | None:
    try:
        link.stat()
    except OSError as error:
        return error.errno if error.errno in (errno.ENOENT, errno.ELOOP) else None
    return None


Answer = TypeVar("Answer")

LIMIT_S: Final = 5.0
"""For one question to a file system; a cold file on Lustre takes some tens of milliseconds."""


class LocalFiles:
    """What is there under a path; what cannot be read counts as nothing, and `notes` say so.

    Each question is asked in a thread of its own, which is left behind when there is no answer
    within `limit_s`: a server that is down may never answer. After that nothing more is asked.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._unread: list[str] = []
        self._is_late = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, and why, a sentence each."""
        return tuple(dict.fromkeys(self._unread))

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, in order."""

        def read() -> tuple[str, ...]:
            return tuple(sorted(entry.name for entry in Path(folder).iterdir()))

        return self._answer(folder, read, ())

    def real(self, path: str) -> str | None:
        """Return the path without links, None where nothing is."""
        return self._answer(path, lambda: os.path.realpath(path, strict=True), None)

    def text(self, path: str, most_bytes: int) -> str | None:
        """Return what a regular file of this size at most holds, None where there is none."""

        def read() -> str:
            with open_regular(Path(path)) as file:
                data = file.read(most_bytes + 1)
            if len(data) > most_bytes:
                raise OSError(f"larger than {most_bytes} bytes")
            return data.decode("utf-8", "surrogateescape")

        return self._answer(path, read, None)

    def _answer(self, path: str, ask: Callable[[], Answer], nothing: Answer) -> Answer:
        if self._is_late:
            return nothing
        answers: list[Answer] = []

        def put() -> None:
            try:
                answers.append(ask())
            except (FileNotFoundError, NotADirectoryError):
                pass
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else None
                self._unread.append(f"{path} cannot be read: {why or error}")

        thread = threading.Thread(target=put, daemon=True)
        thread.start()
        thread.join(self._limit_s)
        if thread.is_alive():
            self._is_late = True
            late = f"no answer from {path} within {self._limit_s:g} s"
            self._unread.append(f"{late}; stopped looking")
        return answers[0] if answers else nothing


def pip_line(*words: str) -> str:
    """The command that installs it: the pip of this Python, as another's may come first in PATH."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *words])


# Source: XDG Base Directory Specification 0.8.


_DEFAULTS = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
}


def xdg_folder(environment: Mapping[str, str], name: str, home: Path) -> Path:
    """The folder that the variable names; one that is no absolute path counts as not set."""
    said = environment.get(name, "")
    return Path(said) if said.startswith("/") else home / _DEFAULTS[name]


_PACKAGE = Path(hpckit.__file__).resolve().parent
SITES = "site_configs"
TEMPLATES = "templates"
TEMPLATE_SUFFIXES = (".j2", ".css", ".js")
"""Templates, and what the report's page takes as it is."""


def packaged_data() -> Path:
    """The folder that holds hpckit's own `site_configs` and `templates`.

    `hpckit/_data` in an installed wheel, the checkout in an editable installation.
    """
    installed = _PACKAGE / "_data"
    return installed if installed.is_dir() else _PACKAGE.parent


def packaged_examples() -> Path:
    """The folder of hpckit's examples, which `hpckit demo` copies."""
    return packaged_data() / "examples"


def packaged_schema(name: str) -> Path:
    """The JSON Schema `hpckit.NAME-1`; in a checkout it lies with the documentation."""
    data = packaged_data()
    folder = data / "schemas" if data.name == "_data" else data / "docs" / "reference"
    return folder / f"hpckit.{name}-1.schema.json"


def search_path(
    environment: Mapping[str, str], home: Path, *, extra: Sequence[Path] = ()
) -> tuple[Path, ...]:
    """The folders that may hold `site_configs/` and `templates/`, strongest first."""
    named = [Path(part) for part in environment.get("HPCKIT_PATH", "").split(":") if part]
    config = xdg_folder(environment, "XDG_CONFIG_HOME", home)
    return (*extra, *named, config / "hpckit", Path("/etc/hpckit"), packaged_data())


class FileResources:
    """Site files and templates under a search path.

    `site_dirs` and `template_dirs` hold the files themselves and come before `path`, whose
    folders hold them in `site_configs/` and `templates/`.
    """

    def __init__(
        self,
        path: Sequence[Path],
        *,
        site_dirs: Sequence[Path] = (),
        template_dirs: Sequence[Path] = (),
    ) -> None:
        self._site_dirs = (*site_dirs, *(folder / SITES for folder in path))
        self._template_dirs = (*template_dirs, *(folder / TEMPLATES for folder in path))
        own = packaged_data()
        self._own_folders = (f"{own / SITES}/", f"{own / TEMPLATES}/")

    def site_files(self) -> Mapping[str, Sequence[Path]]:
        """Site name → its files, the winning one first."""
        found: dict[str, list[Path]] = {}
        for folder in self._site_dirs:
            for path in _files(folder, (".toml",)):
                found.setdefault(path.stem, []).append(path)
        return found

    @cached_property
    def template_files(self) -> Mapping[str, Sequence[Path]]:
        """Template name → its files, the winning one first."""
        found: dict[str, list[Path]] = {}
        for folder in self._template_dirs:
            for path in _files(folder, TEMPLATE_SUFFIXES):
                found.setdefault(path.relative_to(folder).as_posix(), []).append(path)
        return found

    def is_packaged(self, path: Path) -> bool:
        """Whether a file is one of hpckit's own."""
        return str(path).startswith(self._own_folders)

    @cached_property
    def runner_digest(self) -> str:
        """The SHA-256 of the sources of what runs inside a job, `hpckit/injob`."""
        import hashlib

        digest = hashlib.sha256()
        for path in sorted((_PACKAGE / "injob").glob("*.py")):
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
        return digest.hexdigest()

    def read(self, path: Path) -> str:
        """The text of one of these files. Raises StorageFailed; Untrusted for somebody else's."""
        if not self.is_packaged(path):
            must_be_ours(path)
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StorageFailed(f"{path} cannot be read: {error}") from error


def text_of(path: Path) -> str | None:
    """The text of a file that a job names, None where there is none. Raises StorageFailed."""
    try:
        if path.is_dir():
            path /= "config.json"
        return read_regular(path).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise StorageFailed(f"{path} cannot be read: {error}") from error


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    try:
        found = (path for suffix in suffixes for path in folder.rglob(f"*{suffix}"))
        yield from sorted(path for path in found if path.is_file())
    except OSError as error:
        raise StorageFailed(f"{folder} cannot be searched: {error}") from error


def user_name() -> str | None:
    """The name of this process's user; None where the password database has none for its number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def account_home() -> str | None:
    """The home folder of the account, which HOME need not be; None where it is not known."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


def write_private(path: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file of hpckit's own, mode 0600, at once or not at all. Raises OSError.

    One that `is_durable` is on disk before it has its name.
    """
    with _beside(path, mode=0o600, is_durable=is_durable) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that a user asked for, to write to; its mode is what the umask leaves.

    A link is followed. What is no regular file, and what is this process's output already (such as
    /dev/stdout after `>> FILE`), is written to as it stands. Raises StorageFailed.
    """
    try:
        with _opened(path) as file:
            yield file
    except OSError as error:
        # A link may lead to a file that is not there yet, but to no such folder.
        dead = dead_link(path if error.errno == errno.ELOOP else path.parent)
        why, hint = dead or (error.strerror, _elsewhere(path, error))
        raise StorageFailed(f"{path} cannot be written: {why}", hint=hint) from error


def _elsewhere(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        folder = shlex.quote(str(_target(path).parent if path.is_symlink() else path.parent))
        return f"mkdir -p {folder} first, or use an existing folder"
    return "use a folder that you can write to, with free space"


@contextlib.contextmanager
def _beside(
    path: Path, *, mode: int | None = None, is_durable: bool = False
) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of another when it is whole."""
    temporary = path.parent / f".hpckit.{os.urandom(4).hex()}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _on_the_spot(path: Path) -> Iterator[IO[bytes]]:
    """A device or a FIFO; one that nobody reads is refused, as it would be waited for."""
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        yield file


def _opened(path: Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return _beside(_target(path))
    if not stat.S_ISREG(status.st_mode):
        return _on_the_spot(path)
    output = next((fd for fd in (1, 2) if _is_open_as(fd, status)), None)
    # What takes the place of a file is not what the shell has open, nor behind what is in that.
    return _beside(_target(path)) if output is None else os.fdopen(os.dup(output), "wb")


def _is_open_as(fd: int, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), file)
    except OSError:
        return False


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))
