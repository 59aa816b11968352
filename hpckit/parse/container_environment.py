"""What a container's image sets in the environment, read from its own files.

Sources: enroot import writes the image's variables into /etc/environment (NVIDIA/enroot
src/docker.sh); apptainer build writes them into /.singularity.d/env/10-docker2singularity.sh
(apptainer internal/pkg/build/sources/packer). Nothing is executed: a value that a shell would
have to compute is not known.
"""

from __future__ import annotations

import re
from typing import Final

ENROOT_FILE: Final = "/etc/environment"
APPTAINER_FOLDER: Final = "/.singularity.d/env"

_EXPORT: Final = re.compile(
    r"""export\s+(?P<name>[A-Za-z_]\w*)=(?P<quote>["']?)(?P<value>.*)(?P=quote)\s*""", re.ASCII
)
_DEFAULT: Final = re.compile(r"""\$\{[A-Za-z_]\w*:-(["']?)(?P<value>.*)\1\}""", re.ASCII)
_ASSIGNED: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.ASCII)


def parse_enroot_environment(text: str) -> dict[str, str]:
    """The variables of /etc/environment, one a line; comments and other lines set nothing."""
    found = (_ASSIGNED.fullmatch(line.strip()) for line in text.splitlines())
    return {one["name"]: _unquoted(one["value"]) for one in found if one is not None}


def parse_apptainer_environment(text: str) -> dict[str, str]:
    """The variables that a script of `/.singularity.d/env` exports with a value in plain text.

    `export A="${A:-"b"}"` counts as b; any other use of `$` or a backquote is left out.
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        found = _EXPORT.fullmatch(line.strip())
        if found is None:
            continue
        default = _DEFAULT.fullmatch(found["value"])
        value = default["value"] if default else found["value"]
        if not set("$`") & set(value):
            values[found["name"]] = value
    return values


def _unquoted(value: str) -> str:
    quoted = re.fullmatch(r"""(["'])(.*)\1""", value)
    return quoted[2] if quoted else value
