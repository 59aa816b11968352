"""Questions to NVML whose refusals are answers too."""

from __future__ import annotations

from typing import Any

from hpckit.model.nvml_reading import LOST, Answer, NvmlRefusal


class NvmlLibrary:
    """The module `pynvml`, asked by the names of its functions."""

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml

    def ask(self, name: str, *arguments: Any) -> Answer[Any]:
        """What a function returns, or why it does not."""
        function = getattr(self._pynvml, name, None)
        if function is None:
            return NvmlRefusal(reason=f"nvidia-ml-py here is too old for {name}")
        try:
            return function(*arguments)
        except self._pynvml.NVMLError as error:
            return self.refusal(error)
        except UnicodeDecodeError:
            return NvmlRefusal(reason="an answer that is no text")

    def refusal(self, error: Any) -> NvmlRefusal:
        """The refusal that an NVMLError is; one without a name of its own has its number."""
        name = type(error).__name__
        if name == "NVMLError":
            return NvmlRefusal(reason=f"NVML error {error.value}")
        return NvmlRefusal(reason=name.removeprefix("NVMLError_"))

    def gpu(self, index: int) -> NvmlGpu:
        """The GPU of an index; one without a handle is lost."""
        handle = self.ask("nvmlDeviceGetHandleByIndex", index)
        lost = handle if isinstance(handle, NvmlRefusal) else None
        return NvmlGpu(self, self._pynvml, handle, lost)


class NvmlGpu:
    """A GPU that is asked; once it is lost it is not asked again: each try may take seconds.

    `nvml` is the module `pynvml`, for its constants and structures.
    """

    def __init__(
        self, library: NvmlLibrary, pynvml: Any, handle: Any, lost: NvmlRefusal | None
    ) -> None:
        self.nvml = pynvml
        self.handle = handle
        self.lost = lost
        self._library = library

    def ask(self, name: str, *arguments: Any) -> Answer[Any]:
        """What a function says of this GPU, which is its first argument."""
        if self.lost is not None:
            return self.lost
        answer = self._library.ask(name, self.handle, *arguments)
        if isinstance(answer, NvmlRefusal) and answer.reason in LOST:
            self.lost = answer
        return answer

    def fields(self, wanted: list[tuple[int, int]]) -> list[Answer[int]]:
        """The unsigned numbers of fields, each asked by id and scope, in one call for all."""
        values = self.ask("nvmlDeviceGetFieldValues", wanted)
        if isinstance(values, NvmlRefusal):
            return [values] * len(wanted)
        return [
            self._library.refusal(self.nvml.NVMLError(one.nvmlReturn))
            if one.nvmlReturn
            else one.value.uiVal
            for one in values
        ]
