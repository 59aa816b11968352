"""The man pages of the commands: `make man`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from hpckit.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def man() -> ModuleType:
    """The builder, which no package holds."""
    spec = importlib.util.spec_from_file_location("docs_man", ROOT / "docs" / "man.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_has_a_page(man: ModuleType, tmp_path: Path) -> None:
    """A page has the command's usage and options; nothing in it is taken for a request of roff."""
    man.main(tmp_path)
    names = {path.stem for path in tmp_path.iterdir()}
    assert names == {"hpckit", *(f"hpckit-{name}" for name in COMMANDS)}
    submit = (tmp_path / "hpckit-submit.1").read_text()
    assert ".SH NAME\nhpckit\\-submit \\- Check, render and submit a job\n" in submit
    assert ".TP\n.B \\-N, \\-\\-nodes N\nNumber of nodes.\n" in submit
    requests = {".TH", ".SH", ".SS", ".B", ".TP", ".PP", ".nf", ".fi", ".I"}
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert {line.split()[0] for line in lines if line.startswith(".")} <= requests
