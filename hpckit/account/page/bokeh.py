"""Finds BokehJS, the plotting library that the Python package bokeh carries.

The package is not imported: its models take over a second, and only one file of it is needed.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hpckit.account.page.html import PlotLibrary
from hpckit.core.files import pip_line

_SCRIPT: Final = Path("server/static/js/bokeh.min.js")
_OLDEST: Final = (3, 6)
_NEXT: Final = 4
_WANTED: Final = "bokeh>=3.6,<4"


def bokeh_plots(package: str = "bokeh") -> PlotLibrary:
    """BokehJS's core bundle as text; a library without script, and why, where there is none."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return _without(f"the package {package} is not installed: {pip_line(_WANTED)}")
    try:
        found = version(package)
    except PackageNotFoundError:
        return _without(f"the package {package} has no version: {pip_line(_WANTED)}")
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if len(numbers) < len(_OLDEST) or not _OLDEST <= numbers < (_NEXT, 0):
        return _without(
            f"bokeh {found} is installed, and 3.6 to 3.x is needed: {pip_line(_WANTED)}"
        )
    path = Path(spec.submodule_search_locations[0]) / _SCRIPT
    try:
        script = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _without(f"{path} cannot be read: {error}")
    return PlotLibrary(name="bokeh", version=found, script=script)


def _without(because: str) -> PlotLibrary:
    return PlotLibrary(name="bokeh", because=because)
