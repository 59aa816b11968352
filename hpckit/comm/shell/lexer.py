"""The words of a shell script, with quotes taken off; nothing is expanded or executed.

What the shell would compute (`$A`, `$(…)`, backquotes) stays as it is written, and makes a word one
that is not plain. Comments are left out, `#SBATCH` lines are kept.
Source: POSIX.1-2017, Shell Command Language, 2.2 to 2.4; bash(1), QUOTING and HERE DOCUMENTS.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.late import regex

_BLANKS: Final = regex(r"(?:[ \t\r\f\v]|\\\n)+")
_PLAIN: Final = regex(r"[^ \t\r\f\v\n\\'\"`$;&|()<>]+")
_SIGN: Final = regex(r"&>>|<<<|<<-|&>|<<|>>|<&|>&|<>|>\||&&|\|\||;;|\|&|[;&|()<>\n]")
_REDIRECTIONS: Final = frozenset({"&>>", "<<<", "&>", ">>", "<&", ">&", "<>", ">|", "<", ">"})
_SPECIAL: Final = regex(r"[\\'\"`$(){}<#\n]")
_IN_QUOTES: Final = regex(r"[\\\"`$]")
_DOCUMENT: Final = regex(r"<<(-?)[ \t]*\\?(['\"]?)([^\s'\"<>|&;()]+)\2")
_ARITHMETIC: Final = "))"


class Word(NamedTuple):
    """One word: its text without quotes, and as it is written."""

    text: str
    raw: str
    line: int
    is_plain: bool


class Sign(NamedTuple):
    """An operator that ends a command, such as `;`, `|` or a new line."""

    text: str
    line: int


class Directive(NamedTuple):
    """The options of an `#SBATCH` line."""

    text: str
    line: int


class Document(NamedTuple):
    """The body of a here-document behind its line, and the line on which the body begins.

    `is_plain` is whether its delimiter is quoted, so that the shell computes nothing in it.
    """

    text: str
    line: int
    is_plain: bool


Token = Word | Sign | Directive | Document


def shell_words(text: str, tool: str, first_line: int = 1) -> Iterator[Token]:
    """The words and operators of a script, in its order; redirections are left out.

    Raises ParseError for a quote, a bracket or a here-document that never ends; `tool` names the
    file there, and `first_line` is the line of it on which the text begins.
    """
    return _Reader(text, tool, first_line).tokens()


class _Mark(NamedTuple):
    """The mark of a here-document: where its delimiter ends, and what ends the body."""

    end: int
    delimiter: str
    is_indented: bool
    is_plain: bool


class _Reader:
    def __init__(self, text: str, tool: str, first_line: int) -> None:
        self._text = text
        self._tool = tool
        self._first_line = first_line
        self._at = 0
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._documents: list[_Mark] = []
        self._awaits: str | None = None
        self._no_sum_before = 0

    def tokens(self) -> Iterator[Token]:
        text = self._text
        while self._at < len(text):
            blanks = _BLANKS.match(text, self._at)
            if blanks:
                self._at = blanks.end()
                continue
            if text[self._at] == "#":
                yield from self._comment()
                continue
            total = self._sum()
            if total is not None:
                yield total
                continue
            sign = _SIGN.match(text, self._at)
            if sign and not text.startswith(("<(", ">("), self._at):
                yield from self._sign(sign[0])
                continue
            word = self._word()
            if not self._is_target(word):
                yield word
        yield from self._bodies()

    def _line(self, at: int) -> int:
        return bisect_right(self._line_ends, at - 1) + self._first_line

    def _sum(self) -> Word | None:
        """`((…))` as one word: `<<` in it shifts bits. None for brackets of two subshells."""
        start = self._at
        if start < self._no_sum_before or not self._text.startswith("((", start):
            return None
        end = _after_closing(self._text, start + 1, _ARITHMETIC)
        if end is None or not self._text.endswith(_ARITHMETIC, start, end):
            # What is in there is not looked through again, so that reading stays linear.
            self._no_sum_before = len(self._text) if end is None else end
            return None
        self._at = end
        raw = self._text[start:end]
        return Word(raw, raw, self._line(start), is_plain=False)

    def _comment(self) -> Iterator[Directive]:
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        comment = self._text[self._at : end]
        starts_line = self._at == 0 or self._text[self._at - 1] == "\n"
        if starts_line and re.match(r"#SBATCH\s", comment):
            yield Directive(comment[len("#SBATCH") :], self._line(self._at))
        self._at = end

    def _sign(self, sign: str) -> Iterator[Sign | Document]:
        line = self._line(self._at)
        self._at += len(sign)
        if sign in ("<<", "<<-"):
            self._awaits = sign
        elif sign in _REDIRECTIONS:
            self._awaits = ">"
        else:
            self._awaits = None
            yield Sign(sign, line)
            if sign == "\n":
                yield from self._bodies()

    def _bodies(self) -> Iterator[Document]:
        """The here-documents whose marks stand on the line before."""
        for mark in self._documents:
            start = self._at
            last, self._at = _document_end(self._text, start, mark.delimiter, mark.is_indented)
            if last is None:
                raise self._unclosed(mark.end - 1, f"line {mark.delimiter}")
            yield Document(self._text[start:last], self._line(start), mark.is_plain)
        self._documents.clear()

    def _is_target(self, word: Word) -> bool:
        """Whether a word is no argument: a file, a delimiter, or the number of what goes there."""
        awaited, self._awaits = self._awaits, None
        if awaited in ("<<", "<<-"):
            is_plain = word.text != word.raw
            self._documents.append(_Mark(self._at, word.text, awaited == "<<-", is_plain))
        is_number = word.raw.isdigit() and self._text.startswith(("<", ">"), self._at)
        return awaited is not None or is_number

    def _word(self) -> Word:
        start = self._at
        pieces: list[str] = []
        is_plain = True
        while self._at < len(self._text):
            piece = self._piece(is_first=self._at == start)
            if piece is None:
                break
            is_plain = is_plain and piece[1]
            pieces.append(piece[0])
        return Word("".join(pieces), self._text[start : self._at], self._line(start), is_plain)

    def _piece(self, *, is_first: bool) -> tuple[str, bool] | None:
        """The next part of a word, and whether it is what it says; None where the word ends."""
        text, at = self._text, self._at
        plain = _PLAIN.match(text, at)
        if plain:
            self._at = plain.end()
            return plain[0], True
        char = text[at]
        if char == "\\":
            self._at = at + 2
            return text[at + 1 : at + 2].replace("\n", ""), True
        if char in "'\"":
            return self._quoted(char)
        if char in "`$":
            return self._computed(char)
        if text.startswith("(", at) and text[at - 1 : at] == "=" and not is_first:
            return self._skipped(at + 1, ")")  # A=(a b): an array
        if is_first and text.startswith(("<(", ">("), at):
            return self._skipped(at + 2, ")")
        return None

    def _quoted(self, quote: str) -> tuple[str, bool]:
        text, start = self._text, self._at + 1
        if quote == "'":
            end = text.find("'", start)
            if end < 0:
                raise self._unclosed(self._at, quote)
            self._at = end + 1
            return text[start:end], True
        pieces: list[str] = []
        is_plain = True
        self._at = start
        while True:
            stop = _IN_QUOTES.search(text, self._at)
            if stop is None:
                raise self._unclosed(start - 1, quote)
            pieces.append(text[self._at : stop.start()])
            self._at = stop.start()
            if stop[0] == '"':
                self._at += 1
                return "".join(pieces), is_plain
            piece = self._escaped() if stop[0] == "\\" else self._computed(stop[0], is_quoted=True)
            is_plain = is_plain and piece[1]
            pieces.append(piece[0])

    def _escaped(self) -> tuple[str, bool]:
        """What a backslash and the next character are between double quotes."""
        char = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if char == "\n":
            return "", True
        return (char if char and char in '$`"\\' else f"\\{char}"), True

    def _computed(self, char: str, *, is_quoted: bool = False) -> tuple[str, bool]:
        text, at = self._text, self._at
        if char == "`":
            return self._skipped(at + 1, "`")
        following = text[at + 1 : at + 2]
        if following == "{":
            return self._skipped(at + 2, "}")
        if following == "(":
            closer = _ARITHMETIC if text.startswith("((", at + 1) else ")"
            return self._skipped(at + 2, closer)
        if following == "'" and not is_quoted:  # $'…': text with escapes
            self._at = _after_ansi(text, at + 2)
            if self._at > len(text):
                raise self._unclosed(at, "'")
            inner = text[at + 2 : self._at - 1]
            return inner, "\\" not in inner
        if following and following in "@*#?-$!":  # whole: what follows `$$` may be `{`
            self._at = at + 2
            return text[at : at + 2], False
        self._at = at + 1
        return "$", not (following.isalnum() or following == "_")

    def _skipped(self, at: int, closer: str) -> tuple[str, bool]:
        end = _after_closing(self._text, at, closer)
        if end is None:
            raise self._unclosed(self._at, closer)
        start, self._at = self._at, end
        return self._text[start:end], False

    def _unclosed(self, at: int, mark: str) -> ParseError:
        line_no = self._line(at)
        start = self._text.rfind("\n", 0, at) + 1
        end = self._text.find("\n", at)
        return refusal(
            "opened here and never closed",
            tool=self._tool,
            line_no=line_no,
            line=self._text[start : len(self._text) if end < 0 else end],
            column=at - start + 1,
            expected=f"a closing {mark}",
        )


def _after_ansi(text: str, at: int) -> int:
    """Behind the quote that ends `$'…'`; the end of the text where none does."""
    while at < len(text) and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text)) + 1


def _after_documents(text: str, at: int, documents: list[tuple[str, bool]]) -> int:
    """Behind the here-documents whose bodies begin at a line's start."""
    for delimiter, is_indented in documents:
        _, at = _document_end(text, at, delimiter, is_indented)
    return at


def _document_end(text: str, at: int, delimiter: str, is_indented: bool) -> tuple[int | None, int]:
    """Where the body of a here-document ends, None where nothing ends it, and what follows."""
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        if (line.lstrip("\t") if is_indented else line).rstrip("\r") == delimiter:
            return at, min(end + 1, len(text))
        at = end + 1
    return None, len(text)


def _after_closing(text: str, at: int, closer: str) -> int | None:
    """Behind what closes a substitution that begins at `at`, None where nothing does.

    The inner bracket of a sum, and those in it, are on the stack as `))`: `<<` and `#` are its
    signs. Two subshells that begin as a sum does may have comments behind the inner one.
    """
    is_sum = closer == _ARITHMETIC
    stack = [")", closer] if is_sum else [closer]
    documents: list[tuple[str, bool]] = []
    at += is_sum
    while stack:
        found = _SPECIAL.search(text, at)
        if found is None:
            return None
        char, at = found[0], found.end()
        if char == "\\":
            at += 1
        elif char == "\n":
            at = _after_documents(text, at, documents)
            documents.clear()
        elif char in "<#":
            at = _after_aside(text, at, documents) if stack[-1] == ")" else at
        else:
            at = _nested(text, at, char, stack)
    return at


def _after_aside(text: str, at: int, documents: list[tuple[str, bool]]) -> int:
    """Behind a comment, or the mark of a here-document, which `documents` then has."""
    if text[at - 1] == "#":
        end = text.find("\n", at)
        is_comment = text[at - 2] in " \t\n(;|&"
        return at if not is_comment else len(text) if end < 0 else end
    mark = _DOCUMENT.match(text, at - 1)
    if text.startswith("<<<", at - 1):
        return at + 2
    if mark is None:
        return at
    documents.append((mark[3], bool(mark[1])))
    return mark.end()


def _nested(text: str, at: int, char: str, stack: list[str]) -> int:
    """One bracket or quote inside a substitution: opens another, or closes the innermost."""
    inner = stack[-1]
    is_text = inner == '"'
    if char == inner[-1]:
        stack.pop()
    elif char == "'":
        end = text.find("'", at)
        at = at if is_text else len(text) if end < 0 else end + 1
    elif char in '"`':
        stack.append(char)
    elif char == "$" and text[at : at + 1] in ("(", "{"):
        at = _opened(text, at, stack)
    elif char == "$" and text.startswith("$", at):
        at += 1
    elif char == "(" and inner == ")":
        at = _opened(text, at - 1, stack)
    elif char == "(" and inner == _ARITHMETIC:
        stack.append(inner)
    return at


def _opened(text: str, at: int, stack: list[str]) -> int:
    """Behind the bracket at `at`, or both of a sum, whose ends `stack` then has."""
    if text.startswith("((", at):
        stack += [")", _ARITHMETIC]
        return at + 2
    stack.append(")" if text[at] == "(" else "}")
    return at + 1
