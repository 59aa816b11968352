"""A token that is said to a command line gets no further, in whichever way it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError
from tests.fakes.cli_jobs import call, config_home, write_site
from tests.fakes.tokens import SHAPES, made


def files_with(text: str, *folders: Path) -> list[Path]:
    """The files below these folders that hold the text."""
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return [file for file in files if text.encode() in file.read_bytes()]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_token_gets_no_further(shape: str, tmp_path: Path) -> None:
    """Refused with exit 3, and in no output and no file but that of the user's own."""
    token = made(shape)
    job, site = tmp_path / "job.toml", config_home() / "site_configs"
    own = write_site(site, "mine", "")
    own.write_text(own.read_text() + f'[job.environment]\nset = {{ X = """{token}""" }}\n')
    job.write_text(f'command = ["true"]\n[environment]\nset = {{ X = """{token}""" }}\n')
    comment = f'command = ["true"] # {token}\n'
    ways: tuple[tuple[tuple[str | Path, ...], str], ...] = (
        (("render", "--env", f"X={token}", "--", "true"), ""),
        (("submit", "--local", f"--set=environment.set.X={token}", "--", "true"), ""),
        (("submit", "--local", "--", "python", *token.split(" ")), ""),
        (("submit", "--local", job), ""),
        (("render", "-"), comment),
        (("render", "--site", "mine", "--", "true"), ""),
    )
    for args, stdin in ways:
        refused = call(*args, stdin=stdin, refused=True)
        assert isinstance(refused.exception, ConfigError), args
        assert refused.exception.exit_code == 3
        assert token[-8:] not in f"{refused.output} {refused.exception} {refused.exception.hint}"
    assert set(files_with(token, tmp_path, config_home().parent)) <= {job, own}
