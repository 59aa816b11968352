"""Quoting: any text is read back exactly by bash and by sbatch, or refused."""

from __future__ import annotations

import subprocess
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.core.errors import RenderError
from hpckit.script.quoting import comment_text, directive_value, sh_line, sh_path, sh_word
from tests.fakes.hostile import HOSTILE
from tests.fakes.sbatch_reader import directives
from tests.sizes import costly

SHELL_CHARS = st.sampled_from(list("'\"\\$`!*?[]{}()<>|&;#~ \t\n\r=%^-ab\u202e\u0301é\x07\x1b"))
TEXTS = st.text() | st.text(SHELL_CHARS)
DIRECTIVE_TEXTS = (
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Co", "Cn"]))
    | st.text(st.sampled_from(list("'\"\\#:= ab-")))
    | st.lists(st.sampled_from(["pack", "job", "PACK", "Job", "het", "\\", '"', " "])).map("".join)
)
REFUSED = {"Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs"}


def refused(text: str) -> bool:
    """Whether no program could receive the text."""
    return "\0" in text or any(unicodedata.category(char) == "Cs" for char in text)


def read_by_bash(line: str, env: dict[str, str] | None = None) -> list[str]:
    """The words of a line as bash reads them."""
    program = f"printf '%s\\0' {line}\n".encode()
    done = subprocess.run(
        ["bash", "-s"], input=program, env=env, capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@costly(0.2)
@given(st.lists(TEXTS, min_size=1, max_size=60))
def test_bash_reads_words_back(texts: list[str]) -> None:
    """A line of words is one physical line, and bash reads exactly those words from it."""
    words = [text for text in texts if not refused(text)] or ["x"]
    line = sh_line(words)
    assert "\n" not in line
    assert "\r" not in line
    assert read_by_bash(line) == words


def test_bash_reads_hostile_words_back() -> None:
    """The same for every hostile text, in one call."""
    words = [text for text in HOSTILE if not refused(text)]
    assert read_by_bash(sh_line(words)) == words


@given(TEXTS)
@example("\0")
@example("\ud800")
def test_a_word_hides_nothing(text: str) -> None:
    """A word holds no control or format character, and is refused only without a UTF-8 form."""
    if refused(text):
        with pytest.raises(RenderError):
            sh_word(text)
        return
    word = sh_word(text)
    assert word
    assert not any(unicodedata.category(char) in REFUSED for char in word)


@given(DIRECTIVE_TEXTS)
def test_sbatch_reads_values_back(text: str) -> None:
    """Both readers of sbatch, of 20.11 and of now, take one option with exactly the value."""
    script = f"#!/bin/bash\n#SBATCH --comment={directive_value(text)}   # because\n"
    assert directives(script) == [f"--comment={text}"]
    assert directives(script, old=True) == [f"--comment={text}"]


@given(TEXTS)
def test_a_directive_hides_nothing(text: str) -> None:
    """A value with a character that ends the line or cannot be seen is refused, no other."""
    hidden = any(unicodedata.category(char) in REFUSED for char in text)
    if hidden:
        with pytest.raises(RenderError):
            directive_value(text)
    else:
        script = f"#SBATCH --comment={directive_value(text)}\n"
        assert directives(script) == [f"--comment={text}"]


@given(TEXTS)
def test_a_comment_stays_on_its_line(text: str) -> None:
    """Text in a comment has no line end and no hidden character."""
    if refused(text):
        with pytest.raises(RenderError):
            comment_text(text)
        return
    shown = comment_text(text)
    assert len(shown.splitlines() or [""]) == 1
    assert len(shown) == len(text)


def test_a_path_begins_at_home_where_it_runs() -> None:
    """`~` and a leading `~/` become the home of whoever runs the script, nothing else does."""
    paths = ["~", "~/", "~/a b", "~/$x", "~root/x", "x/~/y", "/a'b", "~~/x"]
    read = read_by_bash(" ".join(map(sh_path, paths)), {"HOME": "/h h", "PATH": "/usr/bin"})
    assert read == ["/h h", "/h h/", "/h h/a b", "/h h/$x", "~root/x", "x/~/y", "/a'b", "~~/x"]


@pytest.mark.parametrize("value", ["words", 3, None, {"a": 1}])
def test_a_line_is_made_of_words(value: object) -> None:
    """What is no list of words is refused: text would fall apart into letters."""
    with pytest.raises(RenderError, match="expected a list of words"):
        sh_line(value)
