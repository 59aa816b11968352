"""What sbatch of three releases reads from our `#SBATCH` lines is what was meant."""

from __future__ import annotations

import re

import pytest

from hpckit.script.quoting import directive_value
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.traps import MIDDLE, NEW, OLD
from tests.fakes.sbatch_reader import directives

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
LINES = [f"#SBATCH --comment={directive_value(value)}   # why" for value in VALUES]
SCRIPT = "\n".join(["#!/bin/bash", *LINES, "true", ""])


@pytest.fixture(scope="module", params=[OLD, MIDDLE, NEW])
def cluster(cluster_of: ClusterOf, request: pytest.FixtureRequest) -> Cluster:
    """A cluster of each release."""
    return cluster_of(request.param)


def test_sbatch_reads_every_value_back(cluster: Cluster) -> None:
    """`sbatch -vvvv` names each argument that it found in the script: exactly what we quoted, and
    what the reader finds that stands in for sbatch in the tests without one.
    """
    said = cluster.run(["sbatch", "-vvvv", "--test-only"], input=SCRIPT).stderr
    found = re.findall(r'Found in script, argument "(--comment=.*)"$', said, re.MULTILINE)
    assert found == [f"--comment={value}" for value in VALUES]
    assert directives(SCRIPT) == found
