"""A release without its last step: `make release` builds and checks, and publishes nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from packaging.metadata import Metadata

import hpckit

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
VERSION: Final = hpckit.__version__
TAG: Final = f"v{VERSION}"


class Check(NamedTuple):
    """What was looked at: whether it may be published, what it is, and the remedy."""

    ok: bool
    subject: str
    text: str


def main() -> int:
    """Print what would be published and what speaks against it; return 1 if anything does."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST))
    checks = [*_of_the_tree(), _notes(), *_of_the_files()]
    print(f" hpckit {VERSION} as {TAG}")
    for check in checks:
        print(f" {'ok' if check.ok else 'error':<6} {check.subject:<10} {check.text}")
    wrong = sum(not check.ok for check in checks)
    if wrong:
        print(f" not ready: {wrong} of {len(checks)} checks failed; nothing was published")
        return 1
    print(f" next   git tag --annotate --cleanup=whitespace --file dist/notes.md {TAG}")
    print(f"        git push origin {TAG}")
    print(" then   twine upload dist/*.whl dist/*.tar.gz   (nothing was published)")
    return 0


def _run(*argv: str) -> str:
    done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout


def _of_the_tree() -> Iterator[Check]:
    """Check that the commit is what is built, and that nobody has published it."""
    changed = _run("git", "status", "--porcelain").splitlines()
    text = (
        f"{len(changed)} files differ from the commit: {changed[0][3:]} …" if changed else "clean"
    )
    yield Check(not changed, "tree", text)
    taken = _run("git", "tag", "--list", TAG).strip()
    text = f"{TAG} exists: raise hpckit.__version__" if taken else f"{TAG} is free"
    yield Check(not taken, "tag", text)


def _notes() -> Check:
    """Cut this version's section out of the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)", text, re.M | re.S
    )
    if found is None:
        return Check(
            False,
            "notes",
            f"CHANGELOG.md has no `## [{VERSION}] - YYYY-MM-DD`: rename [Unreleased]",
        )
    (DIST / "notes.md").write_text(found[1].strip() + "\n", encoding="utf-8")
    return Check(True, "notes", f"dist/notes.md, {len(found[1].splitlines())} lines")


def _of_the_files() -> Iterator[Check]:
    """Check what the wheel and the sdist hold, and what they say of themselves."""
    wheel, sdist = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        said = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA")))
    with tarfile.open(sdist) as tar:
        packed = tar.getnames()
    metadata = Metadata.from_email(said, validate=True)  # what the index would refuse raises here
    yield Check(str(metadata.version) == VERSION, "metadata", f"{metadata.name} {metadata.version}")
    pages = sum(name.endswith(".1") for name in names)
    yield Check(pages > 0, "wheel", f"{_size(wheel)}, {len(names)} files, {pages} man pages")
    lacks = {"pyproject.toml", "hatch_build.py"} - {name.split("/", 1)[-1] for name in packed}
    yield Check(not lacks, "sdist", f"{_size(sdist)}, {len(packed)} files")


def _size(path: Path) -> str:
    return f"{path.relative_to(ROOT)}, {path.stat().st_size / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
