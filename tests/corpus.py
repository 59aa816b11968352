"""The public captures that `HPCKIT_CORPUS` names; they are read there and never copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

LACKING = "no public captures here: HPCKIT_CORPUS does not name a folder of them"


def corpus_files(*patterns: str) -> list[object]:
    """Parameters for a test: the files of the corpus that match, or one that is skipped.

    A pattern that finds nothing in a corpus that is there fails the collection: a test that reads
    no capture states nothing.
    """
    folder = os.environ.get("HPCKIT_CORPUS")
    if not folder:
        return [pytest.param(None, marks=pytest.mark.skip(LACKING), id="no-corpus")]
    root = Path(folder)
    found = sorted({path for pattern in patterns for path in root.glob(pattern)})
    if not found:
        raise FileNotFoundError(f"nothing in {root} matches {', '.join(patterns)}")
    return [pytest.param(path, id=str(path.relative_to(root))) for path in found]


def corpus_file(name: str) -> Path:
    """One file of the corpus; skips the test that asks where there is no corpus."""
    folder = os.environ.get("HPCKIT_CORPUS")
    if not folder:
        pytest.skip(LACKING)
    return Path(folder) / name
