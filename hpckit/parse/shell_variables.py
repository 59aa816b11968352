"""Variables of a shell as a script sets, exports and unsets them; nothing is expanded.

Source: bash(1), SHELL BUILTIN COMMANDS; csh(1), setenv.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Final

from hpckit.model.comm_lint import SettingForm
from hpckit.parse.launch_words import Pair
from hpckit.parse.shell_assignment import FALLBACK, OpenAssignment, plain_assignment
from hpckit.parse.shell_words import Word

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class ShellVariables:
    """What a script has set so far, and what of it stands; `step` counts its commands."""

    def __init__(self) -> None:
        self.found: list[OpenAssignment] = []
        self.step = 0
        self._standing: dict[str, OpenAssignment] = {}
        self._exports_all = False
        self._exported: set[str] = set()
        self._maybe_exported = 0

    def settle(self) -> list[OpenAssignment]:
        """All that was found; what `export $NAMES` may have exported counts as exported."""
        for one in self.found[: self._maybe_exported]:
            if one.form is SettingForm.SHELL:
                one.form = SettingForm.EXPORT
        self._maybe_exported = 0
        return self.found

    def add(self, pair: Pair, form: SettingForm, until_line: int | None) -> None:
        """Take in a variable that is set, to the end of the script or up to a line."""
        before = self._standing.get(pair.name)
        value = None if pair.is_longer else pair.value
        if pair.is_fallback and before is not None and before.value != "":
            if until_line is None:
                before.form = form
                return
            value = before.value
        opened = OpenAssignment(pair.name, value, pair.line, form, self.step, until_line)
        if until_line is None:
            if before is not None:
                self.end(pair.name, pair.line)
                opened.instead_of = before.lost_to(value)
            self._standing[pair.name] = opened
        self.found.append(opened)

    def end(self, name: str, line: int) -> None:
        """A variable is set anew or unset; where no command came between, nobody saw it."""
        before = self._standing.pop(name, None)
        if before is not None:
            before.until_line = line
            before.is_gone = before.step == self.step

    def plain(self, pair: Pair) -> None:
        """`A=b` alone changes what is exported already, and else only the shell's own."""
        before = self._standing.get(pair.name)
        is_seen = self._exports_all or pair.name in self._exported
        is_seen = is_seen or (before is not None and before.form is SettingForm.EXPORT)
        self.add(pair, SettingForm.EXPORT if is_seen else SettingForm.SHELL, None)

    def export(self, words: Sequence[Word]) -> None:
        """`export A=b C`, and `export -n A`."""
        if "n" in _flags(words):
            self.unset(words)
            return
        for word in words:
            pair = plain_assignment(word)
            if pair is not None:
                self.add(pair, SettingForm.EXPORT, None)
            elif not word.is_plain:
                self._maybe_exported = len(self.found)
            elif word.text in self._standing:
                self._standing[word.text].form = SettingForm.EXPORT
            else:
                self._exported.add(word.text)

    def declare(self, words: Sequence[Word]) -> None:
        """`declare A=b`, and `declare -x A=b`."""
        if "x" in _flags(words):
            self.export(words)
            return
        for pair in filter(None, map(plain_assignment, words)):
            self.plain(pair)

    def unset(self, words: Sequence[Word]) -> None:
        """`unset A B`."""
        for word in words:
            self._exported.discard(word.text)
            self.end(word.text, word.line)

    def setenv(self, words: Sequence[Word]) -> None:
        """`setenv A b` of csh."""
        if not words or not _NAME.fullmatch(words[0].text):
            return
        value = words[1] if words[1:] else None
        text = "" if value is None else value.text if value.is_plain else None
        self.add(Pair(words[0].text, text, words[0].line), SettingForm.EXPORT, None)

    def set_options(self, words: Sequence[Word]) -> None:
        """`set -a`, from which on all that is set is exported, and `set +a`."""
        texts = [word.text for word in words]
        flags = [text for text in texts if re.fullmatch(r"[-+][a-z]*a[a-z]*", text)]
        named = [text for text, what in pairwise(texts) if what == "allexport"]
        for flag in (*flags, *named):
            self._exports_all = flag.startswith("-")

    def colon(self, words: Sequence[Word]) -> None:
        """`: "${A:=b}"` sets A where it is not set."""
        for word in words:
            match = FALLBACK.fullmatch(word.raw)
            if match and "=" in word.raw:
                value = match["value"].strip("\"'")
                self.plain(Pair(match["name"], value, word.line, is_fallback=True))


def _flags(words: Sequence[Word]) -> str:
    """The options before the first argument of a builtin."""
    return "".join(takewhile(lambda text: text.startswith("-"), (word.text for word in words)))
