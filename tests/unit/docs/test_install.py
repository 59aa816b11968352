"""The recipes on the page about installation."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = (ROOT / "docs" / "howto" / "install.md").read_text(encoding="utf-8")
RECIPES: Final = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


class _Class:
    """What a recipe builds on."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What recipes depend on; Spack's own modules are stood in for."""
    specs: list[str] = []
    package = ModuleType("spack.package")
    given: Mapping[str, Any] = {
        "depends_on": lambda spec, **_: specs.append(spec),
        "version": lambda *_, **__: None,
        "license": lambda _: None,
        "default_args": lambda **_: nullcontext(),
    }
    vars(package).update(given, __all__=list(given))
    for name, word in (
        ("spack_repo.builtin.build_systems.python", "PythonPackage"),
        ("spack_repo.builtin.packages.py_submitit.package", "PySubmitit"),
    ):
        module = ModuleType(name)
        setattr(module, word, _Class)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "spack.package", package)
    return specs


def test_the_spack_recipe_asks_for_what_the_package_needs(asked: list[str]) -> None:
    """Each dependency of pyproject.toml is in the recipe, from the same release on."""
    for recipe in RECIPES:
        exec(compile(recipe, "install.md", "exec"), {"__file__": "/spack/package.py"})  # noqa: S102
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = set()
    for line in project["dependencies"]:
        match = re.match(r"([\w-]+)>=([\d.]+)", line)
        assert match is not None, line
        needed.add(f"py-{match[1]}@{match[2]}")
    assert {spec.partition(":")[0] for spec in asked} >= {*needed, "python@3.11"}
