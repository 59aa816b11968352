"""NVML asked through nvidia-ml-py: what a function answers, and why what it does not.

Besides hpckit this needs the standard library and pynvml only: it also runs inside jobs.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar

from hpckit.core.values import dataclass
from hpckit.node.topology import Unknown

_LOST: Final = frozenset({"GpuIsLost", "ResetRequired", "GpuNotFound"})
"""Reasons for which a GPU answers nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlRefusal:
    """Why there is no answer: nvml.h's error in pynvml's spelling (`NotSupported`), or a sentence.

    Source: nvml.h, nvmlReturn_t; `NVML_ERROR_GPU_IS_LOST` is `GpuIsLost`.
    """

    reason: str


_Answered = TypeVar("_Answered")
Answer: TypeAlias = _Answered | NvmlRefusal

# NVML_VALUE_NOT_AVAILABLE is -1 as whatever integer the call has.
_NOT_AVAILABLE: Final = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1})


class Doubts:
    """Collects what is not known of one subject while its answers are read."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._found: dict[str, str] = {}

    def note(self, what: str, because: str) -> None:
        """Say that `what` is not known; the first reason stays."""
        self._found.setdefault(what, because)

    def known(self, what: str, answer: Answer[_Answered]) -> _Answered | None:
        """The answer; None for a refusal, which is noted."""
        if isinstance(answer, NvmlRefusal):
            self.note(what, f"NVML: {answer.reason}")
            return None
        return answer

    def number(self, what: str, answer: Answer[int]) -> int | None:
        """A number; None also for the one that stands for none."""
        value = self.known(what, answer)
        if value in _NOT_AVAILABLE:
            self.note(what, "NVML: no value")
            return None
        return value

    def text(self, what: str, answer: Answer[str]) -> str | None:
        """A text; None also for an empty one."""
        value = self.known(what, answer)
        if value is not None and not value.strip():
            self.note(what, "NVML: empty text")
            return None
        return value

    def because(self, what: str) -> str:
        """The reason why one of them is not known."""
        return self._found[what]

    @property
    def is_silent(self) -> bool:
        """Whether the GPU answers nothing, or nothing more."""
        return self._silence() is not None

    def _silence(self) -> str | None:
        for reason in self._found.values():
            word = reason.removeprefix("NVML: ")
            if word in _LOST or word.startswith("no answer within"):
                return reason
        reasons = {self._found.get(what) for what in ("name", "uuid", "pci")}
        return reasons.pop() if len(reasons) == 1 else None

    def found(self) -> tuple[Unknown, ...]:
        """All of it; of a GPU that is silent one entry, not one for each question."""
        silence = self._silence()
        found = {what: because for what, because in self._found.items() if because != silence}
        if silence is not None:
            found = {"everything": silence, **found}
        return tuple(Unknown(self.subject, what, because) for what, because in found.items())


class NvmlLibrary:
    """The module `pynvml`, asked by the names of its functions."""

    def __init__(self, pynvml: Any) -> None:
        self.pynvml = pynvml

    def ask(self, name: str, *arguments: Any) -> Answer[Any]:
        """What a function returns, or why it does not."""
        function = getattr(self.pynvml, name, None)
        if function is None:
            return NvmlRefusal(reason=f"nvidia-ml-py is too old for {name}")
        try:
            return function(*arguments)
        except self.pynvml.NVMLError as error:
            return self.refusal(error)
        except UnicodeDecodeError:
            return NvmlRefusal(reason="the answer is not text")

    def refusal(self, error: Any) -> NvmlRefusal:
        """The refusal that an NVMLError is; one without a name of its own has its number."""
        name = type(error).__name__
        if name == "NVMLError":
            return NvmlRefusal(reason=f"NVML error {error.value}")
        return NvmlRefusal(reason=name.removeprefix("NVMLError_"))


class NvmlGpu(Doubts):
    """A GPU that is asked; once it is lost it is not asked again: each try may take seconds.

    `nvml` is the module `pynvml`, for its constants and structures.
    """

    def __init__(self, library: NvmlLibrary, index: int) -> None:
        super().__init__(f"GPU{index}")
        self.index = index
        self.nvml = library.pynvml
        self.handle = library.ask("nvmlDeviceGetHandleByIndex", index)
        self.lost = self.handle if isinstance(self.handle, NvmlRefusal) else None
        self._library = library

    def ask(self, name: str, *arguments: Any) -> Answer[Any]:
        """Return what a function says of this GPU, which is its first argument."""
        if self.lost is not None:
            return self.lost
        answer = self._library.ask(name, self.handle, *arguments)
        if isinstance(answer, NvmlRefusal) and answer.reason in _LOST:
            self.lost = answer
        return answer

    def return_word(self, code: int) -> str:
        """Return the word for an nvmlReturn_t, such as a fabric's status."""
        return self._library.refusal(self.nvml.NVMLError(code)).reason if code else "Success"

    def fields(self, wanted: list[tuple[int, int]]) -> list[Answer[int]]:
        """Return the unsigned numbers of fields, each asked by id and scope, in one call."""
        values = self.ask("nvmlDeviceGetFieldValues", wanted)
        if isinstance(values, NvmlRefusal):
            return [values] * len(wanted)
        return [
            self._library.refusal(self.nvml.NVMLError(one.nvmlReturn))
            if one.nvmlReturn
            else one.value.uiVal
            for one in values
        ]
