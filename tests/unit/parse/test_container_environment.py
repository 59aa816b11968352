"""What an image sets in the environment is read from its files."""

from __future__ import annotations

from hpckit.parse.container_environment import (
    parse_apptainer_environment,
    parse_enroot_environment,
)


def test_enroot_s_file_has_a_variable_a_line() -> None:
    """Quotes around a value are taken away; comments and other lines set nothing."""
    text = '# of the image\nPATH=/opt/bin:/bin\nLD_LIBRARY_PATH="/usr/local/nvidia/lib"\nnothing\n'
    assert parse_enroot_environment(text) == {
        "PATH": "/opt/bin:/bin",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib",
    }


def test_apptainer_s_script_exports_defaults() -> None:
    """A value in plain text counts, also as the default of the variable itself."""
    text = '#!/bin/sh\nexport PATH="/opt/bin"\nexport A="${A:-"b c"}"\nexport B=\'d\'\n'
    assert parse_apptainer_environment(text) == {"PATH": "/opt/bin", "A": "b c", "B": "d"}


def test_what_a_shell_would_compute_is_left_out() -> None:
    """Nothing is executed, so such a value is not known."""
    text = 'export A="$HOME/x"\nexport B=`id`\nexport C="${D:+e}"\nif true; then\n'
    assert parse_apptainer_environment(text) == {}
