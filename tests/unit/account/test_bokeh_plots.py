"""BokehJS is found in the installed package, without importing it."""

from __future__ import annotations

import subprocess
import sys

from hpckit.account.page.bokeh import bokeh_plots


def test_finds_the_core_bundle() -> None:
    """The installed bokeh gives its version and the text of its core bundle."""
    found = bokeh_plots()

    assert found.version is not None
    assert found.script is not None
    assert "Bokeh" in found.script


def test_without_the_package() -> None:
    """Without the package there is no script, and the command that brings it."""
    found = bokeh_plots("no_such_package")

    assert found.script is None
    assert f"{sys.executable} -m pip install 'bokeh>=3.6,<4'" in found.because


def test_bokeh_is_not_imported() -> None:
    """Looking for it imports nothing of it."""
    code = (
        "import sys; from hpckit.account.page.bokeh import bokeh_plots; bokeh_plots();"
        "print([name for name in sys.modules if name.startswith('bokeh')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
