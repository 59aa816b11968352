"""NCCL's configuration files: any text is one, and NVIDIA's own library agrees on what it sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.comm.nccl_conf import already_set, conf_remarks, parse_nccl_conf
from hpckit.spec.platform import NcclVersion
from tests.fakes.nccl_wheels import LIBRARY, wheel_sites

VERSIONS = st.sampled_from([None, NcclVersion(2, 21, 5), NcclVersion(2, 30, 7)])
NAMES = ["NCCL_T1", "NCCL_T2", " NCCL_T1", "NCCL_T2 ", "#NCCL_T1", "export NCCL_T1", "", "é"]
VALUES = ["", "1", " 1", "a=b", "1 # c", '"1"', "é"]
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["=", "=", "=", "", "=="]),
        st.sampled_from(VALUES),
        st.sampled_from(["\n", "\n", "\r\n", "\n\n", ""]),
    ),
)
FILES = st.lists(LINES, max_size=8).map("".join)
ASK = """
import ctypes, json, sys
library, process = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
library.ncclGetUniqueId(ctypes.create_string_buffer(128))
process.getenv.restype = ctypes.c_char_p
found = {n: process.getenv(n.encode()) for n in ("NCCL_T1", "NCCL_T2")}
print(json.dumps({n: v.decode("latin-1") for n, v in found.items() if v is not None}))
"""


@given(st.text(), VERSIONS)
def test_any_text_is_a_file(text: str, version: NcclVersion | None) -> None:
    """Each text gives settings whose names have no = and whose lines are in it; none raises."""
    entries = parse_nccl_conf(text, version)
    lines = text.count("\n") + 1
    assert all(e.name and "=" not in e.name and 1 <= e.line_no <= lines for e in entries)
    conf_remarks(text, "f")


@given(FILES, VERSIONS)
def test_the_environment_always_counts(text: str, version: NcclVersion | None) -> None:
    """No file changes what the environment has."""
    told = already_set({"NCCL_T1": "mine"}, {"/etc/nccl.conf": text}, version)
    assert {one.name: one.value for one in told.settings}["NCCL_T1"] == "mine"


@pytest.mark.slow
@pytest.mark.xdist_group("nccl-wheels")
@pytest.mark.parametrize("version", ["2.27.3", "2.30.7"])
def test_nvidia_s_library_sets_the_same(version: str, tmp_path: Path) -> None:
    """What NCCL itself puts in its environment, by a file of any such lines, is what is told."""
    library = wheel_sites(version) / LIBRARY
    conf = tmp_path / "nccl.conf"

    @given(FILES)
    def agrees(text: str) -> None:
        conf.write_text(text, newline="")
        environment = {"HOME": str(tmp_path), "NCCL_CONF_FILE": str(conf), "PATH": os.defpath}
        done = subprocess.run(
            [sys.executable, "-I", "-c", ASK, str(library)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        told = already_set(environment, {str(conf): text}, NcclVersion.of(version))
        mine = {
            one.name: one.value.encode("utf-8", "surrogateescape").decode("latin-1")
            for one in told.settings
            if one.name in ("NCCL_T1", "NCCL_T2")
        }
        assert mine == json.loads(done.stdout.splitlines()[-1])

    agrees()
