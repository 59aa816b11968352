"""The simple commands of a shell script: their words, their lines, what stands around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from hpckit.comm.shell.lexer import Document, Sign, Word, shell_words
from hpckit.core.late import regex

ASSIGNMENT: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*=")
OPENERS: Final = frozenset(("if", "for", "while", "until", "case", "select", "{"))
_HEADED: Final = frozenset(("for", "case", "select"))
"""Openers whose line is no command."""
_CLOSERS: Final = frozenset(("fi", "done", "esac", "}"))
_LEADERS: Final = frozenset(("then", "do", "else", "elif", "!", "function"))
_PREFIXES: Final = frozenset(("time", "exec", "nohup", "command"))
_UNQUOTED: Final = regex(r"[*?~\[{]")
_WRITTEN: Final = regex(r"(?<![\w${/.-])([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*):?=")
"""A name where it is no `$NAME`, and `${NAME:=…}`, which sets it."""


class Statement(NamedTuple):
    """A simple command, and the last line it takes.

    `is_alone`: it stands in no loop, condition, function or subshell, and first on its line.
    `end` is the sign behind it, such as `;`, `|`, `||` or a new line. `has_document`: a
    here-document follows.
    """

    words: tuple[Word, ...]
    last_line: int
    is_alone: bool
    end: str
    has_document: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether it runs once, by itself, and in the script's own shell."""
        return self.is_alone and self.end in "\n;"

    @property
    def first_line(self) -> int:
        """The line of its first word."""
        return self.words[0].line

    @property
    def program_words(self) -> tuple[Word, ...]:
        """The words from the program on, without assignments, `time`, `exec` and the like."""
        words = self.words
        while words and (ASSIGNMENT.match(words[0].raw) or program(words) in _PREFIXES):
            is_time = program(words) == "time"
            words = words[1:]
            while is_time and words and words[0].raw.startswith("-"):
                words = words[1:]
        return words


def program(words: Sequence[Word]) -> str:
    """Return what a command starts, without its folder; "" without words."""
    return PurePosixPath(words[0].text).name if words else ""


def is_settled(word: Word) -> bool:
    """Return whether the shell passes a word on as it is written."""
    return word.is_plain and (word.raw[:1] in "'\"" or not _UNQUOTED.search(word.raw))


def constants(statements: Sequence[Statement]) -> Mapping[str, str]:
    """Return the variables that a script sets once, plainly and outside of all conditions."""
    raw = (word.raw for statement in statements for word in statement.words)
    written = Counter(name or default for text in raw for name, default in _WRITTEN.findall(text))
    found: dict[str, str] = {}
    for statement in statements:
        words = statement.words[statement.words[0].raw == "export" :]
        if not statement.is_certain or not all(ASSIGNMENT.match(word.raw) for word in words):
            continue
        for word in words:
            name, _, value = word.text.partition("=")
            if word.is_plain and written[name] == 1:
                found[name] = value
    return {} if "IFS" in written else found


def read_statements(text: str, tool: str) -> Iterator[Statement]:
    """Yield the simple commands of a script in its order.

    Raises ParseError for quotes, brackets and here-documents that never end.
    """
    reader = _Reader()
    for token in shell_words(text, tool):
        if isinstance(token, Word):
            reader.word(token)
        elif isinstance(token, Document):
            reader.document(token)
        elif isinstance(token, Sign):
            yield from reader.sign(token)
    yield from reader.sign(Sign("\n", reader.last_line))
    yield from reader.pending


class _Reader:
    """Collects words up to a sign; a statement waits for its here-document and pipe."""

    def __init__(self) -> None:
        self.pending: list[Statement] = []
        self.last_line = 0
        self._words: list[Word] = []
        self._blocks = 0
        self._brackets = 0
        self._before = "\n"

    def word(self, word: Word) -> None:
        """Add a word; those that open and close blocks count where a command begins."""
        if not self._words:
            if word.raw in _LEADERS:
                return
            if word.raw in OPENERS | _CLOSERS:
                self._blocks = max(self._blocks + (1 if word.raw in OPENERS else -1), 0)
                if word.raw not in _HEADED:
                    return
        self._words.append(word)

    def document(self, document: Document) -> None:
        """Give the last statement its here-document."""
        if self.pending:
            last_line = document.line + document.text.count("\n") + 1
            self.pending = [self.pending[0]._replace(has_document=True, last_line=last_line)]

    def sign(self, sign: Sign) -> Iterator[Statement]:
        """End the statement; yield the one before."""
        words, self._words = self._words, []
        if words and words[0].raw == "clear":
            return
        goes_on = not words and sign.text == "\n" and self._before in ("&&", "||", "|", "|&")
        if words:
            yield from self.pending
            is_first = self._before == "\n" or words[0].line > self.last_line
            is_outside = self._blocks == self._brackets == 0
            is_alone = is_outside and self._before in "\n;&" and is_first
            last_line = max(sign.line, words[-1].line)
            self.pending = [Statement(tuple(words), last_line, is_alone, sign.text)]
            self._blocks += len(words) > 1 and words[-1].raw == "{"  # function NAME {
        elif self.pending and sign.text != "\n":
            self.pending = [self.pending[0]._replace(last_line=sign.line)]
        if not goes_on:
            self._before, self.last_line = sign.text, sign.line
        self._brackets = max(self._brackets + {"(": 1, ")": -1}.get(sign.text, 0), 0)
