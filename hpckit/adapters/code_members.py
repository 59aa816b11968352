"""Modules whose byte code lies together in one member of the archive.

zipimport opens the archive twice for each module, which takes 0.2 ms; a rank has two dozen. What no
member has, it still finds: the sources, for a Python of another version, and all else.
"""

from __future__ import annotations

import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Final

RANK_CODE: Final = "rank.code"
"""Byte code of what a rank runs: a dict from the source's name to its code in marshal's bytes."""
MORE_CODE: Final = "more.code"
"""Likewise, of what is not a rank's."""
_PACKAGE = "hpckit."
_INIT = "/__init__.py"


def use_code_members() -> None:
    """Take modules of hpckit from the members of the archive that this one was loaded from.

    Python itself has looked whether byte code of this archive is of its own version: it took this
    module's, or else its source.
    """
    spec = __spec__
    if getattr(spec.loader, "archive", None) and __file__.endswith(".pyc"):
        sys.meta_path.insert(0, CodeMembers(spec.loader, type(spec)))


class CodeMembers:
    """Finder and loader, as `sys.meta_path` and a module's `__spec__` have them.

    `archive` and `get_data` are zipimport's, for who reads other members.
    """

    def __init__(self, archive: Any, new_spec: type[ModuleSpec]) -> None:
        """Read from a zipimporter; a member is read once a name is in none before it."""
        self.archive = archive.archive
        self.get_data = archive.get_data
        self._new_spec = new_spec
        self._code: dict[str, bytes] = {}
        self._unread = [RANK_CODE, MORE_CODE]

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Where a module is, None for what no member has."""
        if not name.startswith(_PACKAGE):
            return None
        source = self._source_of(name)
        while source is None:
            if not self._unread:
                return None
            self._code |= self._member(self._unread.pop(0))
            source = self._source_of(name)
        is_package = source.endswith(_INIT)
        origin = f"{self.archive}/{source}"
        # `Loader` is what typeshed calls the ABC; Python asks for the methods alone.
        loader: Any = self
        spec = self._new_spec(name, loader, origin=origin, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [origin.removesuffix(_INIT)]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run its code."""
        code = self._code[self._source_of(module.__name__) or ""]
        exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302  the archive's own, as zipimport

    def get_source(self, name: str) -> str | None:
        """The text that a traceback quotes."""
        source = self._source_of(name)
        return None if source is None else self.get_data(f"{self.archive}/{source}").decode()

    def _source_of(self, name: str) -> str | None:
        path = name.replace(".", "/")
        for source in (f"{path}.py", f"{path}{_INIT}"):
            if source in self._code:
                return source
        return None

    def _member(self, name: str) -> dict[str, bytes]:
        try:
            data = self.get_data(f"{self.archive}/{name}")
        except OSError:
            return {}
        found: dict[str, bytes] = marshal.loads(data)  # noqa: S302  likewise
        return found
