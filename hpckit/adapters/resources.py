"""Finds site files and templates: the search path, and hpckit's own data in any installation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import hpckit
from hpckit.errors import StorageFailed
from hpckit.model.xdg import xdg_folder

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
        self._packaged = packaged_data()

    def site_files(self) -> Mapping[str, Sequence[Path]]:
        """Site name → its files, the winning one first."""
        found: dict[str, list[Path]] = {}
        for folder in self._site_dirs:
            for path in _files(folder, (".toml",)):
                found.setdefault(path.stem, []).append(path)
        return found

    def template_files(self) -> Mapping[str, Sequence[Path]]:
        """Template name → its files, the winning one first."""
        found: dict[str, list[Path]] = {}
        for folder in self._template_dirs:
            for path in _files(folder, TEMPLATE_SUFFIXES):
                found.setdefault(path.relative_to(folder).as_posix(), []).append(path)
        return found

    def is_packaged(self, path: Path) -> bool:
        """Whether a file is one of hpckit's own."""
        return path.is_relative_to(self._packaged / SITES) or path.is_relative_to(
            self._packaged / TEMPLATES
        )

    def runner_digest(self) -> str:
        """The SHA-256 of the sources of what runs inside a job, `hpckit/injob`."""
        digest = hashlib.sha256()
        for path in sorted((_PACKAGE / "injob").glob("*.py")):
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
        return digest.hexdigest()

    def read(self, path: Path) -> str:
        """The text of one of these files. Raises StorageFailed."""
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StorageFailed(f"{path} cannot be read: {error}") from error


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    try:
        found = (path for suffix in suffixes for path in folder.rglob(f"*{suffix}"))
        yield from sorted(path for path in found if path.is_file())
    except OSError as error:
        raise StorageFailed(f"{folder} cannot be searched: {error}") from error
