"""Finds BokehJS, the plotting library that the Python package bokeh carries.

The package is not imported: its models take over a second, and only one file of it is needed.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from hpckit.account.page.html import PlotLibrary
from hpckit.core.files import pip_line

_SCRIPT: Final = "server/static/js/bokeh.min.js"
_OLDEST, _NEXT = (3, 6), (4, 0)
_WANTED: Final = "bokeh>=3.6,<4"


def bokeh_plots(package: str = "bokeh") -> PlotLibrary:
    """BokehJS's core bundle as text; a library without script, and why, where there is none."""
    try:
        found = distribution(package)
        numbers = tuple(int(part) for part in found.version.split(".")[:2] if part.isdecimal())
        if len(numbers) == len(_OLDEST) and _OLDEST <= numbers < _NEXT:
            path = Path(str(found.locate_file(f"{package}/{_SCRIPT}")))
            script = path.read_text(encoding="utf-8")
            return PlotLibrary(name="bokeh", version=found.version, script=script)
        why = f"bokeh {found.version} is installed, and 3.6 to 3.x is needed: {pip_line(_WANTED)}"
    except PackageNotFoundError:
        why = f"the package {package} is not installed: {pip_line(_WANTED)}"
    except (OSError, UnicodeDecodeError) as error:
        why = f"{package}'s script cannot be read: {error}"
    return PlotLibrary(name="bokeh", because=why)
