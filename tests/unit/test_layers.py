"""The shape of the code itself: layers, sizes, what is data only, what loads when."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.begun import unmeasured
from tests.bench.size import imports_of, sources_of

pytestmark = pytest.mark.xdist_group("layers")  # one worker parses the modules
ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "hpckit").rglob("*.py"))
MOST_MODULE_LINES = 600
MOST_FUNCTION_LINES = 40
MOST_MODULES = 25
IO_MODULES = {
    *("subprocess", "socket", "shutil", "tempfile", "sqlite3", "psutil", "submitit"),
    *("fcntl", "select"),
}
IO_CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "rmdir"),
    *("unlink", "iterdir", "glob", "rglob", "touch", "symlink_to"),
}
IO_PACKAGES = ("injob/", "sampler/")
MAY_DO_IO = {
    "account/store.py",
    "api.py",
    "binding/affinity.py",
    "binding/in_job.py",
    "binding/plan_in_job.py",
    "binding/proof.py",
    "cli/job_options.py",
    "cli/main.py",
    "cli/output.py",
    "wiring.py",
    "core/files.py",
    "core/files_in_job.py",
    "core/identity.py",
    "core/process.py",
    "core/trust.py",
    "executor.py",
    "jobs/function.py",
    "jobs/index.py",
    "jobs/local.py",
    "jobs/local_record.py",
    "jobs/local_run.py",
    "jobs/logs.py",
    "jobs/process_tree.py",
    "jobs/slurm_status.py",
    "jobs/slurm_submit.py",
    "node/capture/sysfs.py",
    "node/probe.py",
    "node/remote.py",
    "placement/in_job.py",
    "slurm/ask.py",
    "slurm/conf.py",
    "spec/store.py",
}
"""Beside what runs in a job and the sampler; all else is values in, values out."""
HEAVY = ("jinja2", "msgspec", "submitit", "psutil", "sqlite3", "numpy")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a source file, nested ones too."""
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, Function))


def lines_without_docstring(function: Function) -> int:
    """The lines from `def` to the end, less those of the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def modules_loaded_by(statement: str) -> set[str]:
    """The names in sys.modules of a fresh interpreter, after `statement` less before it.

    It is not measured: coverage itself loads sqlite3 and would hide who else does.
    """
    code = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=unmeasured(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_imports_point_one_way() -> None:
    """Every import contract of pyproject.toml holds."""
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_module_is_long() -> None:
    """No module has more than 600 lines."""
    lines = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in MODULES
    }
    assert {name: n for name, n in lines.items() if n > MOST_MODULE_LINES} == {}


def test_no_folder_is_full() -> None:
    """No folder has more than 25 modules."""
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {str(folder): n for folder, n in counts.items() if n > MOST_MODULES} == {}


def test_imports_make_no_circle() -> None:
    """Not by way of a function or of types either."""
    sources = sources_of(ROOT)
    graph = {name: imports_of(path, sources) - {name} for name, path in sources.items()}
    assert list(TopologicalSorter(graph).static_order())


def does_io(path: Path) -> bool:
    """Whether a module asks the machine: by its imports, or by calls such as `open()`."""
    for node in ast.walk(tree_of(path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if called in IO_CALLS:
                return True
        if any(name.split(".")[0] in IO_MODULES for name in names):
            return True
    return False


def test_the_machine_is_asked_by_few_modules() -> None:
    """Those that do IO are listed here, and each that is listed does it."""
    found = {path.relative_to(ROOT / "hpckit").as_posix() for path in MODULES if does_io(path)}
    assert {name for name in found if not name.startswith(IO_PACKAGES)} == MAY_DO_IO


def test_no_function_is_long() -> None:
    """No function has more than 40 lines beside its docstring."""
    lines = {
        f"{path.relative_to(ROOT).as_posix()}:{function.lineno} {function.name}": (
            lines_without_docstring(function)
        )
        for path in MODULES
        for function in functions(path)
    }
    assert {name: n for name, n in lines.items() if n > MOST_FUNCTION_LINES} == {}


@pytest.mark.parametrize("folder", ["templates", "site_configs"])
def test_data_folders_hold_no_code(folder: str) -> None:
    """A folder of data is there, has files, and none of them is Python."""
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if path.suffix in {".py", ".pyc"}] == []


def test_the_package_itself_loads_nothing() -> None:
    """Importing hpckit imports hpckit and no other module."""
    assert modules_loaded_by("import hpckit") == {"hpckit"}


def test_the_command_line_starts_light() -> None:
    """Importing the command line loads none of the libraries that only a command needs."""
    loaded = modules_loaded_by("import hpckit.cli.main")
    assert "click" in loaded
    assert sorted(loaded.intersection(HEAVY)) == []


def test_a_report_starts_light() -> None:
    """It loads readers of a node's topology where there is one, and Slurm's tools for a job."""
    loaded = modules_loaded_by(
        "import hpckit.account.report, hpckit.account.report_facts, hpckit.account.store"
    )
    assert "hpckit.account.gather" in loaded
    assert [name for name in loaded if name.startswith(("hpckit.node.capture", "tarfile"))] == []
    assert "hpckit.slurm.ask" not in loaded


def test_a_script_is_rendered_without_what_asks_slurm() -> None:
    """The cluster's name is read from a file: `render` loads no parser of Slurm's answers."""
    words = "['render', '--', 'true']"
    loaded = modules_loaded_by(
        f"from hpckit.cli.main import cli; cli.main({words}, standalone_mode=False)"
    )
    assert "hpckit.slurm.conf" in loaded
    assert "hpckit.slurm.ask" not in loaded


def test_what_looks_at_jobs_starts_light() -> None:
    """`jobs`, `status`, `wait` and `cancel` load nothing that prepares a job or renders it."""
    jobs = "from hpckit.cli.main import cli; cli.main(['jobs'], standalone_mode=False)"
    loaded = modules_loaded_by(f"{jobs}; import hpckit.jobs.chain, hpckit.jobs.slurm_submit")
    assert "hpckit.jobs.track" in loaded
    assert {"hpckit.jobs.draft", "hpckit.jobs.prepare", "jinja2"} & set(loaded) == set()


def test_every_module_says_what_it_is_for() -> None:
    """Each module that holds code begins with a docstring."""
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if tree_of(path).body and ast.get_docstring(tree_of(path)) is None
    ]
    assert silent == []
