"""A launcher's own options in front of a command, told apart from what each rank runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from hpckit.core.errors import ConfigError
from hpckit.core.values import dataclass
from hpckit.script.launchers.launcher import SplitCommand
from hpckit.spec.slurm_options import instead


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherOptions:
    """All options that a launcher has, by name without dashes and with hyphens.

    `owned` are those that hpckit writes itself, each with the key that says it; `valued` take a
    value, as do all whose names begin with one of `prefixes`, and `flags` take none; `as_module`
    are flags that name a Python module in place of a file. With `shortens`, the launcher takes the
    beginning of an option for the option, as argparse does.
    """

    program: tuple[str, ...]
    owned: Mapping[str, str]
    valued: frozenset[str]
    flags: frozenset[str]
    as_module: frozenset[str] = frozenset()
    shortens: bool = True
    prefixes: tuple[str, ...] = ()

    def read(self, words: Sequence[str]) -> SplitCommand | None:
        """Return the options and what a rank runs, None where another program stands first.

        Raises ConfigError for an option that hpckit writes itself.
        """
        size, name = len(self.program), " ".join(self.program)
        if not words or (PurePosixPath(words[0]).name, *words[1:size]) != self.program:
            return None
        if "/" in words[0]:
            raise ConfigError(
                f"gives {name} by its path, {words[0]!r}",
                key="command",
                hint=f"set environment.venv or environment.conda, and give only {name}",
            )
        options, rest, is_module = self._split(list(words[size:]))
        if not rest:
            raise ConfigError(
                f"{name} has no program to run", key="command", hint=f"{name} train.py"
            )
        # python3, as many systems have no `python`, and environments have both.
        python = ("python3", "-m") if is_module else ("python3",)
        return SplitCommand(options=tuple(options), command=(*python, *rest))

    def _split(self, words: list[str]) -> tuple[list[str], list[str], bool]:
        options: list[str] = []
        is_module = False
        while words and words[0].startswith("-"):
            word = words.pop(0)
            if word == "--":
                break
            name = self._full_name(word)
            if name in self.as_module:
                is_module = True
                continue
            if name in self.owned:
                raise ConfigError(
                    f"hpckit itself sets {word.split('=', 1)[0]} of {self.program[0]}",
                    key="command",
                    hint=instead(self.owned[name]),
                )
            if self.takes_value(name) and "=" not in word and words:
                option = word if len(name) == 1 else f"--{name}"
                word = f"{option}={words.pop(0)}"
            options.append(word)
        return options, words, is_module

    def takes_value(self, name: str) -> bool:
        """Return whether an option, named without dashes and with hyphens, takes a value."""
        return name in self.valued or name.startswith(self.prefixes)

    def _full_name(self, word: str) -> str:
        """Return the name of an option as the launcher reads it.

        Raises ConfigError for one of which nobody knows whether the next word is its value.
        """
        known = self.valued | self.flags | self.as_module | self.owned.keys()
        name = word.lstrip("-").split("=", 1)[0].replace("_", "-")
        if name in known or name.startswith(self.prefixes):
            return name
        meant = [option for option in known if len(name) > 1 and option.startswith(name)]
        if self.shortens and len(meant) == 1:
            return meant[0]
        if "=" in word or (word[1:2] in self.valued and word[2:3].isdigit()):
            return name
        raise ConfigError(
            f"unknown option {word} of {self.program[0]}: the next word may be its value or the "
            "program",
            key="command",
            hint=f'write {word}=VALUE if it takes a value, else set launch.args = ["{word}"]',
        )
