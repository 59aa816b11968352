"""What README and the how-tos show of a command is what the command prints, at 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import RunHpckit
from tests.fakes.cli_jobs import config_home

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = (
    "README.md",
    "docs/howto/add-a-site.md",
    "docs/howto/inspect-a-node.md",
    "docs/howto/place-ranks.md",
    "docs/howto/tune-communication.md",
)
NO_CLUSTER: Final = re.compile(r"hpckit (tune|place|render|fabric show|inspect examples/)")
BLOCK: Final = re.compile(r"^```([a-z]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LEFT_OUT: Final = "…"


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language; what a terminal shows has none."""
    return [text for kind, text in BLOCK.findall((ROOT / page).read_text()) if kind == language]


def shown(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page that needs no cluster, and the lines below it."""
    for block in blocks(page, ""):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = re.sub(r"\\\n\s*", "", part).rstrip("\n").split("\n")
            if NO_CLUSTER.match(command) and lines:
                yield command, lines


CASES: Final = [
    pytest.param(page, command, lines, id=f"{page}: {command[:40]}")
    for page in PAGES
    for command, lines in shown(page)
]


def is_part_of(lines: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether lines are what was printed; `…` on a line of its own stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == LEFT_OUT else f"{re.escape(line)}\n" for line in lines
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the examples, the page's own job file and its own site."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    tables = blocks(request.node.callspec.params["page"], "toml")
    job = [text for text in tables if text.startswith('schema  = "hpckit.job/1"')]
    (tmp_path / "job.toml").write_text("\n".join(job[:1]))
    at = next((at for at, text in enumerate(tables) if 'name = "orion"' in text), len(tables))
    sites = config_home() / "site_configs"
    sites.mkdir(parents=True)
    if tables[at:]:
        (sites / "orion.toml").write_text("\n".join(tables[at : at + 2]))
    return tmp_path


@pytest.mark.parametrize(("page", "command", "lines"), CASES)
def test_a_page_shows_what_is_printed(
    run_hpckit: RunHpckit, folder: Path, page: str, command: str, lines: list[str]
) -> None:
    """Every line of a command that needs no cluster is printed so, and none is missing."""
    done = run_hpckit(*shlex.split(command)[1:], cwd=folder, env={"COLUMNS": "80"})
    printed = [line.rstrip() for line in (done.stderr + done.stdout).splitlines()]
    assert is_part_of(lines, printed), f"{page}: {command}\n" + "\n".join(printed)


@pytest.mark.parametrize(
    ("lines", "is_shown"),
    [
        (["a", "b", "c"], True),
        (["a", "…", "c"], True),
        (["a", "b"], False),
        (["b", "…"], False),
        (["a", "…", "x"], False),
    ],
)
def test_a_line_that_was_not_printed_is_found(lines: list[str], is_shown: bool) -> None:
    """Nothing may be missing but where a page says so."""
    assert is_part_of(lines, ["a", "b", "c"]) == is_shown
