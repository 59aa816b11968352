"""The goldens of the site `docker`: each release takes them, runs their steps, and renders them.

What the cluster of docker/ lacks for a golden, and what is changed for it, is said in MADE_UP,
ADAPTED and ONE_TASK; all else is the golden as it is.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpckit.script.launchers.registry import LAUNCHERS
from tests.cluster.cluster import CHECKOUT, Cluster, Containers, eventually
from tests.cluster.conftest import ClusterOf
from tests.cluster.controller import controller
from tests.cluster.hpckit_on import new_path
from tests.cluster.made_up_slurm import NodeKind, kinds_conf
from tests.cluster.traps import alike
from tests.fakes.sbatch_reader import components
from tests.golden.test_goldens import RUNNER_DIGEST, expected, steps, words
from tests.sizes import some

CASES = CHECKOUT / "tests" / "golden" / "cases"
VERSIONS = {"trixie": "24.11.5", "bookworm": "22.05.8", "forky": "26.05."}
RUN_S = 150.0

MADE_UP = {
    "everything-said": "wants its own 17 nodes, partitions, reservation, licence and job 12345",
    "hostile-words": "wants the features a, b and c",
}
"""Golden → why a slurmctld that is made up for it says whether it is taken."""

ADAPTED: Mapping[str, Mapping[str, str | None]] = {
    "everything-said": {
        **dict.fromkeys(
            ("--account", "--begin", "--constraint", "--dependency", "--exclude", "--licenses")
        ),
        **dict.fromkeys(("--nodelist", "--qos", "--reservation")),
        "--nodes": "4",
        "--ntasks": "32",
        "--partition": "main",
        "--time": "10:00",
    },
    "hostile-words": {"--constraint": None},
    "tuned-container": dict.fromkeys(("--container-image", "--container-env")),
}
"""Golden → the options that are other than it says where its step is run; None: not given.

Those of containers are pyxis's, which Debian does not have.
"""

ONE_TASK = "--array=0"
"""An array's tasks are alike: one is run."""

WITHOUT_PMIX = {"forky": {"--mpi": "pmi2"}}
"""Release → what `--mpi=pmix` is run as: Debian builds this Slurm without it."""


def sites_of(case: Path) -> list[str]:
    """The values of `--site` in a golden's arguments."""
    said = shlex.split((case / "args").read_text(encoding="utf-8"))
    return [after for word, after in itertools.pairwise(said) if word == "--site"]


GOLDENS = [case for case in sorted(CASES.iterdir()) if sites_of(case) in (["docker"], [])]
"""Those of the test cluster, and those that name no site."""


@pytest.fixture(scope="module", params=VERSIONS)
def suite(request: pytest.FixtureRequest) -> str:
    """The Debian release that the hosts run."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of that release."""
    up = cluster_of(suite)
    assert up.check(["sinfo", "--version"]).startswith(f"slurm-wlm {VERSIONS[suite]}")
    return up


@contextmanager
def made_up(cluster: Cluster) -> Iterator[Containers]:
    """A slurmctld of the cluster's release that has what MADE_UP says is wanted."""
    gpu = NodeKind(prefix="gpu", digits=3, count=17, features=("h100", "ib", "gpu"))
    other = NodeKind(count=4, features=("a", "b", "c"))
    partitions = ["PartitionName=main Default=YES Nodes=" + other.names()]
    for name in ("gpu", "gpu-long"):
        partitions.append(f"PartitionName={name} Nodes={gpu.names()} MaxTime=7-0")
    conf = kinds_conf([gpu, other], partitions)
    conf["slurm.conf"] += "Licenses=matlab:1\nFirstJobId=12345\n"
    with controller(conf, image=cluster.image, environ=cluster.environ) as on:
        first = on.check(["sbatch", "--parsable", "--hold", "--partition=gpu", "--wrap=true"])
        assert first.strip() == "12345"
        reserve = ("reservation=maint", "starttime=now", "duration=10-0", "users=alice")
        on.check(["scontrol", "create", *reserve, "nodes=ALL"], user="root")
        yield on


def refusal(on: Containers, case: Path) -> str:
    """Why sbatch would not take a golden's script; empty if it would."""
    done = on.run(["sbatch", "--test-only"], input=expected(case))
    return done.stderr if done.returncode else ""


def changed(options: list[str], changes: Mapping[str, str | None]) -> Iterator[str]:
    """The options, those in `changes` with another value or left out."""
    for option in options:
        name = option.partition("=")[0]
        value = changes.get(name, "")
        if value is not None:
            yield f"{name}={value}" if value else option


def step_options(case: Path) -> Iterator[list[str]]:
    """The options of a golden's srun, of a heterogeneous job's of each component."""
    for step in steps(expected(case)):
        given = shlex.split(step)[1:]
        first = next(at for at, word in enumerate(given) if not word.startswith("--"))
        yield given[:first]


def started(cluster: Cluster, case: Path, suite: str, folder: str) -> str:
    """The file in `folder` that a job of a golden's shape ends with its step's exit code."""
    output = f"{folder}/{case.name}.out"
    changes = {**ADAPTED.get(case.name, {}), **WITHOUT_PMIX.get(suite, {})}
    groups = [list(changed(group, changes)) for group in components(expected(case))]
    groups[0] += [ONE_TASK] if any(word.startswith("--array=") for word in groups[0]) else []
    groups[0].append(f"--output={output}")
    words = [word for group in groups for word in (*group, ":")][:-1]
    steps = (shlex.join(changed(step, changes)) for step in step_options(case))
    # What Slurm says of the first group's memory is not that of the others: of_group unsets it.
    lines = [f"env -u SLURM_MEM_PER_CPU srun {step} true || exit" for step in steps]
    script = "\n".join(["#!/bin/bash", "trap 'echo exit $?' EXIT", *lines, ""])
    done = cluster.run(["sbatch", *words], input=script)
    assert done.returncode == 0, (case.name, done.stderr)
    return output


def answer(cluster: Cluster, output: str) -> str:
    """What a job has written so far."""
    return cluster.run(["cat", output]).stdout


def test_every_golden_of_the_site_is_here() -> None:
    """What is adapted is a golden of this site, and the site has each kind of launch."""
    names = {case.name for case in GOLDENS}
    assert {*MADE_UP, *ADAPTED} <= names
    shapes = ("one-node", "many-nodes", "array")
    assert {f"docker-{kind}-{shape}" for kind in LAUNCHERS for shape in shapes} <= names


def test_slurm_takes_them(cluster: Cluster) -> None:
    """`sbatch --test-only` takes the script of every golden, as it is."""
    with made_up(cluster) as other:
        refused = {
            case.name: refusal(other if case.name in MADE_UP else cluster, case) for case in GOLDENS
        }
    assert not any(refused.values()), refused


@pytest.mark.parametrize("suite", alike("bookworm", "forky", "trixie"), indirect=True)
def test_srun_takes_their_steps(cluster: Cluster, suite: str) -> None:
    """In a job with a golden's directives, `true` runs under its srun with each of its options."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    outputs = {case.name: started(cluster, case, suite, folder) for case in GOLDENS}
    said: dict[str, str] = {}

    def all_ended() -> bool:
        said.update({name: answer(cluster, path) for name, path in outputs.items()})
        return all("exit " in text for text in said.values())

    eventually(all_ended, timeout_s=RUN_S, every_s=2)
    assert not {name: text for name, text in said.items() if not text.endswith("exit 0\n")}


@pytest.mark.parametrize("suite", alike(*VERSIONS), indirect=True)
def test_their_bytes_are_the_same_on_the_login_host(cluster: Cluster) -> None:
    """`hpckit render` there prints what is in a golden, byte for byte."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    for part in (CASES, CHECKOUT / "examples"):
        cluster.copy_in(part, f"{folder}/{part.name}")
    for case in some(GOLDENS, quick=5):
        there = [word.replace(str(CASES), f"{folder}/cases") for word in words(case)]
        done = cluster.run(["hpckit", "render", *there], cwd=folder)
        assert done.returncode == 0, (case.name, done.stderr)
        assert RUNNER_DIGEST.sub("0" * 12, done.stdout) == expected(case), case.name
