"""Small real ELF files in the places of PyTorch, NCCL and its plugins: synthetic, made by `cc`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NCCL_TEXT = "NCCL version {}+cuda12.9"
RCCL_TEXT = "RCCL version : {}"
NO_COMPILER = "no C compiler here: cc is not on PATH"
SITES = f"lib/python3.{sys.version_info.minor}/site-packages"


def shared_library(
    path: Path,
    text: str = "",
    *,
    soname: str | None = None,
    needed: Path | None = None,
    rpath: str | None = None,
    is_runpath: bool = False,
) -> Path:
    """A library with a constant, and perhaps a need and a RPATH, or a RUNPATH in its place."""
    if shutil.which("cc") is None:
        pytest.skip(NO_COMPILER)
    path.parent.mkdir(parents=True, exist_ok=True)
    options = [f"-Wl,-soname,{soname or path.name}"]
    if rpath is not None:
        tags = "enable" if is_runpath else "disable"
        options += [f"-Wl,--{tags}-new-dtags", f"-Wl,-rpath,{rpath}"]
    if needed is not None:
        options += ["-Wl,--no-as-needed", str(needed)]
    _compile(str(path), text, tuple(options))
    return path


def nccl(folder: Path, version: str, name: str = "libnccl.so.2") -> Path:
    """A library with NCCL's name, and the constant that tells its release."""
    return shared_library(folder / name, NCCL_TEXT.format(version), soname="libnccl.so.2")


def python_environment(prefix: Path) -> Path:
    """The folder of a virtual environment without packages; gives its site-packages."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    sites = prefix / SITES
    sites.mkdir(parents=True)
    return sites


def torch(sites: Path, *, rpath: str | None, is_runpath: bool = False) -> Path:
    """PyTorch's library that loads NCCL, linked with `libnccl.so.2` as the wheel's is."""
    link_with = nccl(sites / "link-time", "0.0.0")
    made = shared_library(
        sites / "torch/lib/libtorch_cuda.so", needed=link_with, rpath=rpath, is_runpath=is_runpath
    )
    shutil.rmtree(link_with.parent)
    shared_library(sites / "torch/lib/libtorch_cpu.so")
    return made


def wheel(sites: Path, version: str) -> Path:
    """The NCCL wheel, as pip unpacks it."""
    (sites / f"nvidia_nccl_cu12-{version}.dist-info").mkdir(parents=True)
    return nccl(sites / "nvidia/nccl/lib", version)


def _compile(path: str, text: str, options: tuple[str, ...]) -> None:
    source = f'__attribute__((used)) const char hpckit_text[] = "{text}";\n'
    command = ["cc", "-shared", "-fPIC", "-O0", "-nostdlib", "-x", "c", "-", "-x", "none"]
    subprocess.run([*command, *options, "-o", path], input=source, text=True, check=True)
