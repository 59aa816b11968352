"""What a wheel takes along beside its packages: examples, JSON Schemas, and `make man`'s pages."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = "build/man/man1"
SCHEMAS = "docs/reference"


class Data(BuildHookInterface):
    """Adds data to a wheel that is not editable: a checkout has it where it is.

    Rewritten paths in pyproject.toml would do for the examples, but for editable installs, which
    take no rewritten path of a `.py` file.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add examples and schemas to the package's data, and the man pages where man(1) looks."""
        if version != "standard":
            return
        root = Path(self.root)
        schemas = sorted(root.glob(f"{SCHEMAS}/*.schema.json"))
        build_data["force_include"] |= {
            str(root / "examples"): "hpckit/_data/examples",
            **{str(path): f"hpckit/_data/schemas/{path.name}" for path in schemas},
        }
        if (root / PAGES).is_dir():
            build_data["shared_data"][PAGES] = "share/man/man1"
