"""Compiled templates are kept in a private folder, and never taken from any other."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from hpckit.script.template_cache import TemplateCache


def rendered(folder: Path) -> str:
    """What a template gives through a cache in `folder`."""
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"t": "{{ 1 + 1 }}"}),
        bytecode_cache=TemplateCache(folder),
        autoescape=True,
    )
    return environment.get_template("t").render()


def test_a_compiled_template_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    """The folder is made with mode 0700 and holds one file a template, which is used again."""
    folder = tmp_path / "cache" / "templates"
    assert rendered(folder) == "2"
    assert folder.stat().st_mode & 0o777 == 0o700
    (kept,) = folder.iterdir()
    written = kept.stat().st_mtime_ns
    assert rendered(folder) == "2"
    assert kept.stat().st_mtime_ns == written


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """A folder into which others could put code is neither read nor written."""
    folder = tmp_path / "templates"
    rendered(folder)
    (kept,) = folder.iterdir()
    kept.write_bytes(b"other code")
    folder.chmod(mode)
    assert rendered(folder) == "2"
    assert kept.read_bytes() == b"other code"


def test_a_folder_of_another_user_is_not_used() -> None:
    """Root's own /proc/1 stands for a folder of somebody else: nothing is put there."""
    assert rendered(Path("/proc/1")) == "2"


@pytest.mark.parametrize("place", ["file", "file/below", "n" * 300])
def test_a_place_that_cannot_be_a_folder_costs_only_time(tmp_path: Path, place: str) -> None:
    """Where no folder can be made, templates are compiled each time."""
    (tmp_path / "file").touch()
    assert rendered(tmp_path / place) == "2"


@pytest.mark.parametrize("damage", [b"", b"\0", b"not bytecode at all"])
def test_a_damaged_entry_is_compiled_again(tmp_path: Path, damage: bytes) -> None:
    """An entry that is cut off or nonsense is replaced by a new one."""
    rendered(tmp_path)
    (kept,) = tmp_path.glob("*.cache")
    whole = kept.read_bytes()
    kept.write_bytes(damage)
    assert rendered(tmp_path) == "2"
    assert kept.read_bytes() == whole
