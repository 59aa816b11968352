"""Job folders on disk: private, and each file written at once or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.core.errors import NoSuchFile, StorageFailed
from hpckit.core.files import dead_link, not_written, space_hint, write_private
from hpckit.core.files_in_job import read_regular
from hpckit.core.late import Late
from hpckit.core.trust import make_private, must_be_ours
from hpckit.spec.job_folder import INTENT_FILE, LOGS_FOLDER, SUBMITTED_FILE

if TYPE_CHECKING:
    import shutil
    import tempfile
else:
    shutil = Late("shutil")
    tempfile = Late("tempfile")

# A login node that crashes must not leave one of them empty beside a job in the queue.
_DURABLE = frozenset({INTENT_FILE, SUBMITTED_FILE})
_ELSEWHERE = "set another job_root in the site file"


class FileJobFolders:
    """Job folders below any root."""

    def create(self, root: Path, name: str) -> Path:
        """A new folder with its `logs/`, mode 0700. Raises StorageFailed, Untrusted."""
        folder = root / name
        try:
            make_private(root)
            folder.mkdir(mode=0o700)
            (folder / LOGS_FOLDER).mkdir(mode=0o700)
        except OSError as error:
            why, hint = dead_link(root) or (
                error.strerror,
                space_hint(error, folder) or _ELSEWHERE,
            )
            raise StorageFailed(
                f"cannot create the job folder {folder}: {why}", hint=hint
            ) from error
        return folder

    def write(self, folder: Path, name: str, content: str | bytes) -> None:
        """Write a file of the folder at once or not at all, mode 0600. Raises StorageFailed."""
        data = content.encode() if isinstance(content, str) else content
        try:
            write_private(folder / name, data, is_durable=name in _DURABLE)
        except OSError as error:
            raise not_written(folder / name, error) from error

    def read(self, folder: Path, name: str) -> str:
        """The text of a file of the folder. Raises StorageFailed, NoSuchFile."""
        try:
            return read_regular(folder / name).decode()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoSuchFile(f"{folder / name} cannot be read: {error.strerror}") from error
        except OSError as error:
            raise StorageFailed(f"{folder / name} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise StorageFailed(f"{folder / name} cannot be read: {error}") from error

    def read_json(self, folder: Path, name: str, *keys: str) -> Mapping[str, Any]:
        """A JSON document of the folder with these keys.

        Raises NoSuchFile, StorageFailed for any other text.
        """
        try:
            document = json.loads(self.read(folder, name))
        except (ValueError, RecursionError) as error:
            raise StorageFailed(f"{folder / name} is damaged: {error}") from error
        if not isinstance(document, dict):
            raise StorageFailed(f"{folder / name} is damaged: not a JSON object")
        if missing := [key for key in keys if key not in document]:
            raise StorageFailed(f"{folder / name} is damaged: {missing[0]} is missing")
        return document

    def probe(self, root: Path) -> None:
        """Raise StorageFailed when a job folder could not be made; leaves nothing behind."""
        if dead := dead_link(root):
            raise StorageFailed(f"cannot create job folders in {root}: {dead[0]}", hint=dead[1])
        place = root
        try:
            while not _is_there(place):
                place = place.parent
            must_be_ours(root)
            Path(tempfile.mkdtemp(dir=place, prefix=".hpckit-")).rmdir()
        except OSError as error:
            raise StorageFailed(
                f"cannot create job folders in {root}: {place}: {error.strerror}",
                hint=_ELSEWHERE,
            ) from error

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder that can be entered."""
        try:
            return path.is_dir() and os.access(path, os.X_OK)
        except OSError:
            return False

    def is_there(self, folder: Path, name: str) -> bool:
        """Whether a file or folder has this name, seen from `folder`; True where nobody tells.

        Of `~` only one's own folder is meant, as in a job's script.
        """
        try:
            own = name.startswith("~/")
            return _is_there(Path.home() / name[2:] if own else folder / name)
        except (OSError, RuntimeError):
            return True

    def remove(self, folder: Path) -> None:
        """Remove a folder that this process made."""
        shutil.rmtree(folder, ignore_errors=True)

    def forget(self, folder: Path, name: str) -> None:
        """Remove a file of the folder, where it is there and that can be done."""
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)

    def scan(self, root: Path) -> Sequence[Path]:
        """The job folders of this user under a root, oldest first; none when there is no root.

        Raises StorageFailed, Untrusted.
        """
        folders = []
        must_be_ours(root)
        try:
            for path in root.iterdir():
                # Another user's, or gone meanwhile: no job folder for this user.
                with contextlib.suppress(PermissionError, FileNotFoundError, NotADirectoryError):
                    status = path.lstat()
                    if status.st_uid == os.geteuid() and not status.st_mode & 0o022:
                        folders.append((_written_s(path / INTENT_FILE), path))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StorageFailed(f"{root} cannot be searched: {error.strerror}") from error
        return [path for _, path in sorted(folders)]


def _written_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except (PermissionError, FileNotFoundError, NotADirectoryError):
        raise
    except OSError:
        return 0.0  # whoever reads it is told why that cannot be done


def _is_there(path: Path) -> bool:
    """Whether something has this name. Raises OSError where that cannot be told."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True
