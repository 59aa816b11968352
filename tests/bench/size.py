"""Counts of the source tree: `make size`. Nothing is timed and nothing can fail.

Modules, lines, the longest folder, modules that one other module imports, the longest chain of
imports and circles among them; then a line a package.
"""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Print the counts."""
    sources = sources_of(ROOT)
    modules = {name: path for name, path in sources.items() if path.name != "__init__.py"}
    lines = {name: path.read_text().count("\n") for name, path in sources.items()}
    imports = {name: imports_of(path, sources) - {name} for name, path in modules.items()}
    importers = defaultdict(set)
    for name, targets in imports.items():
        for target in targets:
            importers[target].add(name)
    folders = defaultdict(list)
    for name in modules:
        folders[name.rpartition(".")[0]].append(name)
    fullest = max(folders, key=lambda folder: len(folders[folder]))
    tests = sum(path.read_text().count("\n") for path in (ROOT / "tests").rglob("*.py"))
    longest = max(modules, key=lambda name: lines[name])
    print(f"modules {len(modules)} · lines {sum(lines.values())} · tests {tests} lines")
    print(
        f"median {statistics.median(lines[name] for name in modules):.0f} lines a module"
        f" · longest {lines[longest]} ({longest})"
    )
    print(f"modules a folder: at most {len(folders[fullest])} ({fullest})")
    print(f"modules with one importer: {sum(len(importers[name]) == 1 for name in modules)}")
    print(_chain(imports))
    for package in sorted({name.split(".")[1] for name in modules}):
        own = [name for name in modules if name.split(".")[1] == package]
        print(f"  {package:<10} {len(own):>4} modules {sum(lines[name] for name in own):>7} lines")


def sources_of(root: Path) -> dict[str, Path]:
    """Return the modules of the package below a checkout, by their dotted names."""
    return {_name(path, root): path for path in sorted((root / "hpckit").rglob("*.py"))}


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, sources: Mapping[str, Path]) -> set[str]:
    """Return the modules that a file imports, those of types and inside functions included."""
    targets: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                targets.add(whole if whole in sources else node.module)
    return {name for name in targets if name in sources}


def _chain(imports: Mapping[str, Iterable[str]]) -> str:
    try:
        order = tuple(TopologicalSorter(imports).static_order())
    except CycleError as error:
        return f"a circle of imports: {' > '.join(error.args[1])}"
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = 1 + max((depth[target] for target in imports.get(name, ())), default=0)
    return f"longest chain of imports: {max(depth.values())} · circles: 0"


if __name__ == "__main__":
    main()
