"""Variables that a shell script sets, and what it tells sbatch, srun and mpirun; never executed.

Sources: bash(1) (SIMPLE COMMANDS, SHELL BUILTIN COMMANDS), csh(1) (setenv), sbatch(1), srun(1),
mpirun(1) of Open MPI, mpiexec of MPICH and Intel MPI, docker-run(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from typing import Final

from hpckit.comm.lint_rule import (
    LostValue,
    Setting,
    SettingForm,
    Settings,
    SettingsKind,
)
from hpckit.comm.shell import launchers
from hpckit.comm.shell.launchers import Pair
from hpckit.comm.shell.lexer import Directive, Document, Word, shell_words
from hpckit.core.errors import ParseError
from hpckit.core.late import regex
from hpckit.core.values import dataclass

_ASSIGNED: Final = regex(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
_FALLBACK: Final = regex(
    r"\"?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*):?[-=](?P<value>[^$`\\{}]*)\}\"?", re.ASCII
)
_FOR_CONTAINER: Final = regex(r"(?:APPTAINER|SINGULARITY)ENV_(?=.)")
_NAME: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PASSED: Final = regex(r"[A-Za-z_]\w*(?!\w|\+?=|:?[-=])", re.ASCII)
_COMMENT: Final = regex(r"^\s*#.*", re.MULTILINE)
_ESCAPED: Final = regex(r"\\([$`\\])")
_OPTIONS: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*\+?=(\(|['\"]?\s*-)", re.ASCII)
_SUBSTITUTED: Final = regex(
    r"(?:[A-Za-z_][A-Za-z0-9_]*=)?\"?\$\((?!\()(.*\b(?:srun|sbatch|salloc|mpirun|mpiexec)\b.*)\)\"?",
    re.ASCII | re.DOTALL,
)
_RUNS: Final = regex(r"`|\$\((?!\()|[<>]\(")
_VARIABLE: Final = regex(r"\"?\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?\"?", re.ASCII)
_DIRECTIVE_WORD: Final = regex(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+|\S+")
_DEEPEST: Final = 8
_STARTED: Final = frozenset(
    ("env", *launchers.STEP_LAUNCHERS, *launchers.MPI_LAUNCHERS, *launchers.CONTAINERS,
     *launchers.LISTING_CONTAINERS, *launchers.SHELLS)
)  # fmt: skip
_BRANCHES: Final = frozenset(
    ("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "{", "}")
)
_LISTS: Final = frozenset(("for", "case", "select", "[[", "foreach", "switch"))
_OPENERS: Final = frozenset(("if", "case", "switch", "{"))
_CLOSERS: Final = frozenset(("fi", "esac", "endif", "endsw", "}"))
_TESTS: Final = frozenset(("[", "[[", "test", "grep"))
_BEFORE: Final = frozenset(("!", "time", "-p", "exec", "nohup", "command", "builtin"))
_QUIET: Final = frozenset(
    ("cd", "echo", "module", "ml", "set", "shopt", "ulimit", "umask", "mkdir", ":",
     "export", "declare", "typeset", "local", "readonly", "unset", "setenv", "unsetenv", "printf")
)  # fmt: skip


def parse_shell(text: str, tool: str) -> Settings:
    """What a script sets, and the scripts in it that it gives to a shell or to sbatch.

    Raises ParseError for a quote, a bracket or a here-document that never ends.
    """
    script = _Script(tool)
    script.read(text)
    found = script.settings()
    passed = set(_PASSED.findall(_COMMENT.sub("", text)))
    assignments = tuple(replace(one, is_passed=one.name in passed) for one in found.assignments)
    return replace(found, assignments=assignments)


class _Script:
    """A script command by command: what stands, and what has been told to the launchers."""

    def __init__(self, tool: str, level: int = 0) -> None:
        self._tool = tool
        self._level = level
        self._reads_line: int | None = None
        self._kept_line = ("", 0)
        self._texts: dict[str, Document] = {}
        self._variables = ShellVariables()
        self._options: list[Setting] = []
        self._has_begun = False
        self._end_line = 0
        self._depth = 0
        self._branches: list[bool] = []
        self._is_tested = False
        self._has_run = False
        self._has_steps = False
        self._handlers: Mapping[str, Callable[[Sequence[Word]], None]] = {
            "export": self._variables.export,
            **dict.fromkeys(("declare", "typeset", "local", "readonly"), self._variables.declare),
            **dict.fromkeys(("unset", "unsetenv"), self._variables.unset),
            **dict.fromkeys(launchers.STEP_LAUNCHERS, self._launch),
            **dict.fromkeys(launchers.MPI_LAUNCHERS, self._mpi),
            **dict.fromkeys(launchers.CONTAINERS, self._container),
            **dict.fromkeys(launchers.LISTING_CONTAINERS, partial(self._container, is_list=True)),
            **dict.fromkeys(launchers.SHELLS, self._shell),
            **dict.fromkeys(launchers.WRAPPERS, self._wrapped),
            "eval": self._eval,
            "read": self._read_into,
            "setenv": self._variables.setenv,
            "set": self._variables.set_options,
            ":": self._variables.colon,
            "env": self._env,
        }

    def read(self, text: str, first_line: int = 1) -> None:
        """Take in a script that begins on a line of the file. Raises ParseError."""
        words: list[Word] = []
        for token in shell_words(text, self._tool, first_line):
            if isinstance(token, Word):
                words.append(token)
            elif isinstance(token, Directive):
                self.directive(token)
            elif isinstance(token, Document):
                self._document(token)
            else:
                self.command(words, token.line)
                self._follow(words, token.text)
                words = []
        self.command(words, words[-1].line if words else 0)

    def settings(self) -> Settings:
        """What was found, in the order of the lines."""
        assignments = tuple(
            one.setting
            for one in sorted(self._variables.settle(), key=lambda one: one.line)
            if not one.is_gone
        )
        is_bare = all(one.form is SettingForm.SHELL for one in assignments)
        return Settings(
            kind=SettingsKind.SCRIPT,
            assignments=assignments,
            options=tuple(self._options),
            has_commands=self._has_run or not is_bare,
            has_steps=self._has_steps,
        )

    def directive(self, directive: Directive) -> None:
        """An `#SBATCH` line; Slurm reads those before the first command, whatever that is."""
        if self._has_begun:
            return
        words = [
            Word(re.sub("['\"]", "", part), part, directive.line, is_plain=True)
            for part in takewhile(
                lambda part: not part.startswith("#"), _DIRECTIVE_WORD.findall(directive.text)
            )
        ]
        options = launchers.directive_options(words)
        self._options += options
        for option in options:
            for pair in launchers.exported_pairs(option):
                self._variables.add(pair, SettingForm.OPTION, None)

    def command(self, words: Sequence[Word], end_line: int) -> None:
        """One simple command with the variables before it."""
        self._end_line = end_line
        self._depth = 0
        self._has_begun = self._has_begun or bool(words)
        self._variables.is_in_branch = self._is_tested or any(self._branches)
        start = 2 if words and words[0].raw == "function" else 0
        while start < len(words) and words[start].raw in (_BRANCHES | _BEFORE):
            self._variables.step += words[start].raw in _BRANCHES
            self._enter(words[start].raw)
            start += 1
        words = words[start:]
        if not words or words[0].raw in _LISTS:
            self._enter(words[0].raw if words else "")
            self._variables.step += bool(words)
            return
        for word in words:
            self._look_into(word)
        self._variables.step += any(not one.is_plain and _RUNS.search(one.raw) for one in words)
        pairs, words = leading_pairs(words, may_be_quoted=False)
        if not words:
            for pair in pairs:
                self._variables.plain(pair)
            return
        for pair in pairs:
            self._variables.add(pair, SettingForm.PREFIX, end_line)
        self._run(words)

    def _enter(self, word: str) -> None:
        """A word that begins or ends a branch, or a group that a test decides of."""
        if word in _OPENERS:
            self._branches.append(word != "{" or self._is_tested)
        elif word in _CLOSERS and self._branches:
            self._branches.pop()
        self._variables.is_in_branch = self._is_tested or any(self._branches)

    def _follow(self, words: Sequence[Word], sign: str) -> None:
        """Whether the next command runs only as a test, or a failure, decides."""
        first = next((one.raw for one in words if one.raw not in (_BRANCHES | _BEFORE)), "")
        is_test = self._is_tested or first in _TESTS or first.startswith("((")
        if words or sign != "\n":
            self._is_tested = sign == "||" or (sign == "&&" and is_test)

    def _run(self, words: Sequence[Word]) -> None:
        """A command without what stands before it."""
        first = words[0].text if words[0].is_plain else words[0].raw
        program = first.rsplit("/", 1)[-1]
        handler = self._handlers.get(program)
        if handler is not None:
            handler(words[1:])
        elif first.startswith("-"):
            for pair in launchers.any_pairs(words):
                self._variables.add(pair, SettingForm.CUT, self._end_line)
        is_quiet = program in _QUIET
        self._has_run = self._has_run or not is_quiet
        self._variables.step += not is_quiet

    def _inner(self, words: Sequence[Word]) -> None:
        """The command that another one starts."""
        start = 0
        while start < len(words) and words[start].raw in _BEFORE:
            start += 1
        self._depth += 1
        if start < len(words) and self._depth <= _DEEPEST:
            self._run(words[start:])

    def _look_into(self, word: Word) -> None:
        """What a word holds for another command: a text, options, or `$(srun …)` itself."""
        if _OPTIONS.match(word.raw):
            self._kept_options(word)
        name, equals, raw = word.raw.partition("=")
        if equals and raw[:1] in ("'", '"'):
            text = word.text.partition("=")[2]
            kept = word._replace(raw=raw, text=text)
            self._texts[name] = Document(launchers.command_text(kept), word.line, word.is_plain)
        is_closed = not word.is_plain and word.raw.endswith((")", ')"'))
        inner = _SUBSTITUTED.fullmatch(word.raw) if is_closed else None
        if inner is not None:
            first_line = word.line + word.raw.count("\n", 0, inner.start(1))
            self._script(inner[1], first_line, is_plain=False)

    def _kept_options(self, word: Word) -> None:
        """Options kept for a launcher, `ARGS=(-x A=b)` or `ARGS="-x A=b"`; for which is not known.

        Of a text in quotes only what bash would find in it as words is looked at.
        """
        raw = word.raw.partition("=")[2]
        kept = Word(word.text.partition("=")[2], raw, word.line, is_plain=word.is_plain)
        inner = raw[1:].removesuffix(")") if raw.startswith("(") else launchers.command_text(kept)
        words: list[Word] = []
        with suppress(ParseError):
            tokens = shell_words(inner, self._tool, word.line)
            words.extend(token for token in tokens if isinstance(token, Word))
        self._variables.found += [
            OpenSetting(pair.name, pair.value, pair.line, SettingForm.OPTION, self._variables.step)
            for pair in launchers.any_pairs(words)
        ]

    def _env(self, words: Sequence[Word]) -> None:
        start = 0
        while start < len(words) and words[start].text.startswith("-"):
            takes_value = words[start].text in ("-u", "--unset", "-C", "--chdir", "-S")
            start += 2 if takes_value else 1
        pairs, words = leading_pairs(words[start:], may_be_quoted=True)
        for pair in pairs:
            self._variables.add(pair, SettingForm.PREFIX, self._end_line)
        self._inner(words)

    def _launch(self, words: Sequence[Word]) -> None:
        said = words
        options, words = launchers.launch_options("srun", words, self._end_line)
        is_in_branch = self._variables.is_in_branch
        self._options += [replace(option, is_conditional=is_in_branch) for option in options]
        for option in options:
            for pair in launchers.exported_pairs(option):
                self._variables.add(pair, SettingForm.OPTION, self._end_line)
        script = launchers.wrapped_script(said)
        if script is not None:
            self._script(launchers.command_text(script), script.line, is_plain=script.is_plain)
        if not words:
            self._reads_line = self._end_line
        self._has_steps |= any(not word.text.startswith("-") for word in said)
        self._inner(words)

    def _mpi(self, words: Sequence[Word]) -> None:
        for pair in launchers.mpi_pairs(words):
            self._variables.add(pair, SettingForm.OPTION, self._end_line)
        self._wrapped(words)

    def _container(self, words: Sequence[Word], *, is_list: bool = False) -> None:
        for pair in launchers.container_pairs(words, is_list=is_list):
            self._variables.add(pair, SettingForm.OPTION, self._end_line)
        self._wrapped(words)

    def _wrapped(self, words: Sequence[Word]) -> None:
        """The first program behind another one's options that says something of variables."""
        for at, word in enumerate(words):
            if word.text.rsplit("/", 1)[-1] in _STARTED:
                self._inner(words[at:])
                return

    def _shell(self, words: Sequence[Word]) -> None:
        """`bash -c SCRIPT`; without a file too it reads the here-document on its line."""
        script = launchers.shell_command(words)
        if script is not None:
            held = self._held(script)
            self._script(held.text, held.line, is_plain=held.is_plain)
        elif all(word.text.startswith("-") for word in words):
            self._reads_line = self._end_line

    def _eval(self, words: Sequence[Word]) -> None:
        """What the shell reads as a line of its own; the variables stay."""
        if len(words) > 1:
            self._inner(words)
            return
        for word in words:
            held = self._held(word)
            self._read_computed(held.text, held.line, is_plain=held.is_plain)

    def _held(self, word: Word) -> Document:
        """The script that a word holds, or the variable that it names: `$CMD`."""
        variable = _VARIABLE.fullmatch(word.raw)
        held = Document(launchers.command_text(word), word.line, word.is_plain)
        # Each text is read once: what it says again is found already, at the same lines.
        return self._texts.pop(variable[1], held) if variable else held

    def _read_computed(self, text: str, first_line: int, *, is_plain: bool) -> None:
        """A script that the shell may compute first: what never ends in it may end then."""
        if self._level >= _DEEPEST:
            return
        self._level += 1
        try:
            self.read(text, first_line)
        except ParseError:
            if is_plain:
                raise
        finally:
            self._level -= 1

    def _read_into(self, words: Sequence[Word]) -> None:
        """`read -d '' A` takes the whole here-document on its line."""
        if words:
            self._kept_line = (words[-1].text, self._end_line)

    def _document(self, document: Document) -> None:
        text = document.text if document.is_plain else _ESCAPED.sub(r"\1", document.text)
        name, line = self._kept_line
        if line == document.line - 1:
            self._texts[name] = document._replace(text=text)
        elif self._reads_line == document.line - 1:
            self._script(text, document.line, is_plain=document.is_plain)

    def _script(self, text: str, first_line: int, *, is_plain: bool) -> None:
        """A script inside this one, whose variables end with it."""
        inner = _Script(self._tool, self._level)
        inner._variables.step = self._variables.step
        inner._read_computed(text, first_line, is_plain=is_plain)
        last_line = first_line + text.count("\n")
        found = inner._variables.settle()
        for one in found:
            one.until_line = last_line if one.until_line is None else one.until_line
            one.is_conditional |= self._variables.is_in_branch
        self._variables.found += found
        self._has_steps = self._has_steps or inner._has_steps
        self._options += [
            replace(one, until_line=one.until_line or last_line) for one in inner._options
        ]


class ShellVariables:
    """What a script has set so far, and what of it stands; `step` counts its commands."""

    def __init__(self) -> None:
        self.found: list[OpenSetting] = []
        self.step = 0
        self.is_in_branch = False
        self._standing: dict[str, OpenSetting] = {}
        self._exports_all = False
        self._exported: set[str] = set()
        self._maybe_exported = 0

    def settle(self) -> list[OpenSetting]:
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
        is_default = pair.is_fallback and (before is None or before.value == "")
        if pair.is_fallback and before is not None and not is_default:
            if until_line is None:
                before.form = form
                return
            value = before.value
        opened = OpenSetting(pair.name, value, pair.line, form, self.step, until_line)
        opened.is_conditional = self.is_in_branch or is_default
        if until_line is None:
            if before is not None:
                before.is_conditional |= self.is_in_branch
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
            match = _FALLBACK.fullmatch(word.raw)
            if match and "=" in word.raw:
                value = match["value"].strip("\"'")
                self.plain(Pair(match["name"], value, word.line, is_fallback=True))


@dataclass(slots=True)
class OpenSetting:
    """An assignment whose end is not known yet; `step` is how many commands came before it."""

    name: str
    value: str | None
    line: int
    form: SettingForm
    step: int
    until_line: int | None = None
    is_gone: bool = False
    instead_of: LostValue | None = None
    is_conditional: bool = False

    @property
    def setting(self) -> Setting:
        """It as others see it: what is exported for a container is that container's own."""
        inside = _FOR_CONTAINER.match(self.name)
        is_option = inside is not None and self.form is SettingForm.EXPORT
        return Setting(
            name=self.name[inside.end() :] if inside else self.name,
            value=self.value,
            line=self.line,
            form=SettingForm.OPTION if is_option else self.form,
            until_line=self.until_line,
            instead_of=self.instead_of,
            is_conditional=self.is_conditional,
            commands_before=self.step,
        )

    def lost_to(self, value: str | None) -> LostValue | None:
        """It where another value took its place before any command saw it."""
        if not self.is_gone or self.value is None or value is None:
            return None
        if value.lower() == self.value.lower():
            return None
        return LostValue(value=self.value, line=self.line)


def plain_assignment(word: Word) -> Pair | None:
    """The variable that an argument such as `A=b` or `"A=b"` sets, and its value; else None.

    `${A:-b}` is `b`: what A is where nobody else has set it.
    """
    match = _ASSIGNED.match(word.text)
    if match is None:
        return None
    if match[2]:
        return Pair(match[1], None, word.line, is_longer=True)
    value = word.text[match.end() :]
    if word.is_plain:
        return Pair(match[1], value, word.line)
    fallback = _FALLBACK.fullmatch(value)
    if fallback is None or fallback["name"] != match[1]:
        return Pair(match[1], None, word.line)
    return Pair(match[1], fallback["value"].strip("\"'"), word.line, is_fallback=True)


def leading_pairs(
    words: Sequence[Word], *, may_be_quoted: bool
) -> tuple[list[Pair], Sequence[Word]]:
    """The variables before a command, and the command; to the shell `"A=b"` is a command."""
    pairs: list[Pair] = []
    for at, word in enumerate(words):
        is_one = may_be_quoted or _ASSIGNED.match(word.raw)
        pair = plain_assignment(word) if is_one else None
        if pair is None:
            return pairs, words[at:]
        pairs.append(pair)
    return pairs, ()


def _flags(words: Sequence[Word]) -> str:
    """The options before the first argument of a builtin."""
    return "".join(takewhile(lambda text: text.startswith("-"), (word.text for word in words)))
