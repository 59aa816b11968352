"""What a real sbatch reads from our directives is what we meant."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hpckit.render.quoting import directive_value

VALUES = (
    "plain",
    "a b",
    "a # b",
    "it's",
    'say "yes"',
    "back\\slash",
    "trailing\\",
    "$(touch x) `y` ${z}",
    "packjob and PackJob",
    "--leading",
    "naïve 日本語",
    "%j %x *?[a]",
    "{{ x }} {% y %}",
    "'",
    '"',
    "\\\"'",
)
CONF = """ClusterName=x
SlurmctldHost=localhost
SlurmctldPort=1
MessageTimeout=2
NodeName=n1
PartitionName=p Nodes=n1
"""


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="sbatch is not installed here")
def test_a_real_sbatch_reads_every_value_back(tmp_path: Path) -> None:
    """`sbatch -vvvv` names each argument that it found in the script: exactly what we quoted."""
    lines = [f"#SBATCH --comment={directive_value(value)}   # why" for value in VALUES]
    script = tmp_path / "job.sbatch"
    script.write_text("\n".join(["#!/bin/bash", *lines, "true", ""]))
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    done = subprocess.run(
        ["sbatch", "-vvvv", "--test-only", str(script)],
        env={**os.environ, "SLURM_CONF": str(conf)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    found = re.findall(r'Found in script, argument "--comment=(.*)"$', done.stderr, re.MULTILINE)
    assert found == list(VALUES)
