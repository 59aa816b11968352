"""The zipapp that carries hpckit's in-job code to the compute nodes (docs/adr/0017).

It has the modules that `hpckit.injob.main` may import, each as source and as byte code.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpckit import __version__
from hpckit.core.errors import StorageFailed
from hpckit.core.files import write_private
from hpckit.core.trust import make_private, must_be_ours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MOST_BYTES: Final = 8 * 1024**2
"""More than an archive has."""
MOST_KEPT: Final = 8
"""Archives of other versions that are kept: a home may be shared by machines."""


class AgentCache:
    """One archive in a folder of the user's; a folder that cannot be used costs only time.

    The file is the archive behind a digest of its key and its bytes. It is run in the user's jobs:
    it is taken only if it is the user's, and nobody else may write it.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder
        self._key = key.encode()
        self._path = folder / f"injob-{key}.pyz"

    def read(self) -> bytes | None:
        """The archive, None where there is none that is whole."""
        try:
            must_be_ours(self._path)
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(handle, "rb") as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                kept = file.read(MOST_BYTES)
        except (OSError, StorageFailed):
            return None
        digest, data = kept[: hashlib.sha256().digest_size], kept[hashlib.sha256().digest_size :]
        return data if digest == self._digest(data) else None

    def write(self, data: bytes) -> None:
        """Keep an archive, if that can be done, and not more than a few others."""
        with contextlib.suppress(OSError, StorageFailed):
            make_private(self._folder)
            write_private(self._path, self._digest(data) + data)
            kept = sorted(self._folder.glob("injob-*.pyz"), key=lambda path: path.lstat().st_mtime)
            for path in kept[:-MOST_KEPT]:
                path.unlink(missing_ok=True)

    def _digest(self, data: bytes) -> bytes:
        return hashlib.sha256(self._key + data).digest()


def _is_ours(found: os.stat_result) -> bool:
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & 0o022
        and found.st_size < MOST_BYTES
    )


_STORED: Final = (
    *("__main__", "hpckit/__init__", "hpckit/core/", "hpckit/injob/", "hpckit/spec/"),
    *("hpckit/binding/__init__", "hpckit/binding/affinity", "hpckit/binding/in_job"),
    *("hpckit/sampler/__init__", "hpckit/sampler/gpus", "hpckit/sampler/nvml_calls"),
)
"""Their byte code is stored, as every rank loads them: they are not worth loading zlib."""
_DEFLATED: Final = ("hpckit/core/fields", "hpckit/core/values", "hpckit/injob/ray",
                    "hpckit/injob/runner")  # fmt: skip
"""Loaded once a job or once a node, and not stored."""
_SHELL: Final = b"""\
#!/bin/sh
# In an image, `sh FILE rank ...`: that has a Python of its own, or none. A rank begins here: the
# runner must not take its end for srun's refusal of an order.
[ -e "$HPCKIT_PLACE/waiting" ] && rm -f "$HPCKIT_PLACE/waiting"
for python in python3 python; do
  "$python" -I "$0" --version >/dev/null 2>&1 && exec "$python" -I "$0" "$@"
done
echo "hpckit: no Python 3.11 in the image" >&2
[ "$4" = -- ] && [ -z "$HPCKIT_RANK_MAP" ] && [ "$HPCKIT_STRICT" != 1 ] || exit 1
if [ "$3" = slurm ]; then
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
  export WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
fi
shift 4
exec "$@"
"""
"""What stands before the archive, which Python passes over and a shell never gets to."""
# This one file is read by whatever Python the node has, so it keeps to the syntax of Python 3.6,
# and a rank whose Python is too old for the rest still runs its command.
_MAIN = b"""\
import os
import sys

if sys.version_info >= (3, 11):
    from hpckit.injob.main import main

    code = main(sys.argv[1:])
    if sys.argv[1:2] == ["rank"]:
        # To take Python apart would cost each rank 2.5 ms, and nothing is left to be written.
        os._exit(code)
    sys.exit(code)

import signal

what = "the probe" if sys.argv[1:2] == ["probe"] else "the job's entry"
version = sys.version.split()[0]
sys.stderr.write("hpckit: %s needs Python 3.11, this is %s\\n" % (what, version))
sys.stderr.flush()
command = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
if not command:
    sys.exit(2)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.stderr.write("hpckit: cannot run %s: %s\\n" % (command[0], error.strerror))
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
# PEP 552: bit 0 marks a hash-based file, bit 1 (not set) asks for a check against the source.
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")


def pack_injob(target: Path, cache: Path | None = None) -> None:
    """Write the in-job zipapp to `target`, in place of what is there.

    The file is its owner's alone and appears whole or not at all. Raises OSError when the folder
    of `target` cannot be written.
    """
    write_private(target, packed_injob(cache))


def packed_injob(cache: Path | None = None) -> bytes:
    """Return the in-job zipapp.

    Each module is there as source and as byte code; another Python version reads the source. With
    them goes nvidia-ml-py, if it is here, for the probe. What was packed is kept in the folder
    `cache`, and taken from there while neither the sources nor Python change.
    """
    files = _files()
    kept = AgentCache(cache, _key(files)) if cache is not None else None
    data = kept.read() if kept is not None else None
    if data is None:
        sources = {path: Path(file).read_bytes() for path, file in files.items()}
        data = _archive({"__main__.py": _MAIN, **sources})
        if kept is not None:
            kept.write(data)
    return data


def _files() -> dict[str, str]:
    """Return all sources of hpckit, and that of nvidia-ml-py, by their paths in an archive."""
    package = str(Path(__file__).parents[1])
    above = len(package) - len("hpckit")
    files = {
        f"{folder}/{name}"[above:]: f"{folder}/{name}"
        for folder, _, names in os.walk(package)
        for name in names
        if name.endswith(".py")
    }
    # nvidia-ml-py is one module, pynvml.py; without it the nodes say that they lack it.
    binding = importlib.util.find_spec("pynvml")
    if binding is not None and binding.origin is not None:
        files["pynvml.py"] = binding.origin
    return files


def _key(files: Mapping[str, str]) -> str:
    """Return a digest of all that the archive depends on; to read the sources would take 40 ms."""
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER + __version__.encode())
    for path in sorted(files):
        state = os.stat(files[path])
        # The time of change (ctime) is the kernel's: no installer and no archive can set it.
        known = (files[path], state.st_ino, state.st_size, state.st_ctime_ns)
        digest.update(f"{known}\0".encode())
    return digest.hexdigest()


def _archive(sources: Mapping[str, bytes]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    buffer.write(_SHELL)
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, tree in sorted(_reached(sources).items()):
            code = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH
            code += importlib.util.source_hash(sources[path]) + _byte_code(path, tree)
            for name, data in ((path, sources[path]), (f"{path}c", code)):
                info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                info.create_system = 3
                info.external_attr = 0o600 << 16
                is_stored = path.startswith(_STORED) and not path.startswith(_DEFLATED)
                is_stored = is_stored and name != path
                info.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
                archive.writestr(info, data, compresslevel=9)
    return buffer.getvalue()


def _reached(sources: Mapping[str, bytes]) -> dict[str, ast.Module]:
    """Return the modules that a job may import, by path: roots, what they import, and so on."""
    trees = {"__main__.py": ast.parse(sources["__main__.py"])}
    waiting = ["hpckit.injob.main", "pynvml"]
    while waiting:
        name = waiting.pop()
        stem = name.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in sources and path not in trees:
                trees[path] = ast.parse(sources[path], path)
                waiting += (name.rpartition(".")[0], *_imports(trees[path]))
    return trees


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports, in its functions too; not what type checkers alone see."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
        waiting += (
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        )


def _byte_code(path: str, tree: ast.Module) -> bytes:
    """Return a module's code for zipimport, without docstrings and columns; its lines remain.

    Columns are a third of it once deflated, and serve the carets of a traceback alone. The path
    inside the archive goes into the code, so none of this machine's does.
    """
    import marshal

    for node in ast.walk(tree):
        place = vars(node)
        if "lineno" in place:
            place.update(end_lineno=place["lineno"], col_offset=-1, end_col_offset=-1)
    return marshal.dumps(compile(tree, path, "exec", dont_inherit=True, optimize=2))
