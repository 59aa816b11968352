"""What the tests of version traps share: releases, what Slurm says to a naive call, what we do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.hpckit_on import hpckit, new_path, programs, submit
from tests.sizes import IS_WHOLE

OLD, MIDDLE, NEW = "bookworm", "trixie", "forky"
"""Slurm 22.05, 24.11 and 26.05."""
GRES_SITE = """\
schema = "hpckit.site/1"
name = "gres"
submitter = "slurm"
template = "base.sbatch.j2"
job_root = "/shared/$USER/hpckit"
poll_interval_s = 1.0

[slurm]
gpu_option = "gres"
"""


def on(*suites: str) -> pytest.MarkDecorator:
    """The releases on which a test runs."""
    return pytest.mark.parametrize("suite", suites)


def alike(*suites: str) -> tuple[str, ...]:
    """Return, of releases on which a test sees the same, the last; all in `make faults`."""
    return suites if IS_WHOLE else suites[-1:]


def says(
    cluster: Cluster, *argv: str, env: Mapping[str, str] | None = None, fails: bool = True
) -> str:
    """All that a naive command prints, which has to fail, or not to."""
    done = cluster.run(argv, env=env)
    assert (done.returncode != 0) is fails, done
    return done.stdout + done.stderr


def naive_job(
    cluster: Cluster, *options: str, run: str, env: Mapping[str, str] | None = None
) -> str:
    """What a batch job of `srun RUN` prints, when it has ended; the shell around it has `env`."""
    out = new_path()
    argv = ["sbatch", "--quiet", "--wait", f"--output={out}", *options, f"--wrap=srun {run}"]
    cluster.run(argv, env=env)
    return cluster.read(out)


def completes(
    cluster: Cluster, *words: str, run: str = "true", env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The submission by hpckit of a job whose ranks run the shell text, which has to COMPLETE."""
    job = submit(cluster, *words, "--wait", "--", "sh", "-c", run, env=env)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0), job
    return job


def refused(cluster: Cluster, *words: str) -> str:
    """What hpckit says to a job that it refuses; sbatch has not been called."""
    log = new_path()
    done = hpckit(cluster, "submit", *words, "--", "true", env={"HPCKIT_COMMAND_LOG": log})
    assert done.returncode in (3, 4, 5), done
    assert "sbatch" not in programs(cluster, log)
    return " ".join(done.stderr.split())


def key(name: str, value: object) -> tuple[str, str]:
    """The option of `hpckit submit` that sets one key of the job file."""
    return ("--set", f"{name}={value}")


def gres_site(cluster: Cluster) -> tuple[str, ...]:
    """The options for a site that wants GPUs as --gres."""
    folder = new_path()
    text = shlex.quote(GRES_SITE)
    cluster.check(["sh", "-c", f"mkdir {folder} && printf %s {text} >{folder}/gres.toml"])
    return ("--site-dir", folder, "--site", "gres")
