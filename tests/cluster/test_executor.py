"""Python functions through submitit's executor `hpckit`, as jobs of Slurm."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.hpckit_on import LONG_S, SITE, new_path

PYTHON = "/opt/hpckit/bin/python3"


def test_functions_are_jobs(cluster: Cluster) -> None:
    """Ranks on two nodes, an array, a bug, a task that is cancelled, a checkpoint and requeue."""
    program = f"{new_path()}.py"
    cluster.copy_in(Path(__file__).with_name("functions.py"), program)
    done = cluster.run([PYTHON, program, new_path()], env=dict(SITE), timeout_s=LONG_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ranks"] == [[7, rank, 4, ["c1", "c2"]] for rank in range(4)]
    assert told["array"] == [0, 1, 2, 3]
    (array_id,) = {one.partition("_")[0] for one in told["array_ids"]}
    assert told["array_ids"] == [f"{array_id}_{task}" for task in range(4)]
    assert "ValueError: there is a bug" in told["failed"]
    assert told["cancelled"] == ["NoneType", "UncompletedJobError"]
    result, no_task, whole = told["attached"]
    assert result == 2
    assert "has no task 9" in no_task
    assert "array of functions" in whole
    count, starts = told["counted"]
    assert (count, starts) == (20, 2)
