"""Thousands of nodes: a real slurmctld that believes in them, and hpckit as a user calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.controller import AT_SITE, Controller, controller
from tests.cluster.hpckit_on import HELD, document, hpckit, new_path, programs, status
from tests.cluster.made_up_slurm import block_conf, tree_conf

FEW, MANY = 4, 9984
TREE, BLOCK, LARGE, SMALL = "4096-tree", "4096-block", f"{MANY}-tree", f"{FEW}-tree"
SIZES = {TREE: 4096, BLOCK: 4096, LARGE: MANY, SMALL: FEW}
AFRESH = "afresh"
_NOW = ["scontrol", "sinfo", "scontrol"]
_FIRST = ["scontrol", "srun", "sinfo"]
LOOKS = {AFRESH: [*_FIRST, *_NOW, "scontrol", "sbatch"], "remembered": [*_NOW, "sbatch"]}
"""How a submission comes to know the cluster and its network, and the programs that it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What sbatch says of a job that it does not submit."""

    accepted: bool
    text: str


@pytest.fixture(scope="module")
def controllers(cluster: Cluster) -> Iterator[dict[str, Controller]]:
    """A slurmctld for each of SIZES, with a site file beside it."""
    with ExitStack() as stack:
        up = {}
        for name, nodes in SIZES.items():
            conf = block_conf(nodes) if name == BLOCK else tree_conf(nodes)
            own = controller(conf, image=cluster.image, environ=cluster.environ)
            up[name] = stack.enter_context(own)
        yield up


def asked(on: Controller, *options: str) -> Answer:
    """Whether sbatch would take a job with `options`."""
    done = on.run(["sbatch", "--test-only", *options, "--wrap=hostname"])
    return Answer(accepted=done.returncode == 0, text=done.stderr)


def submitted(on: Controller, *words: str, env: Mapping[str, str] | None = None) -> str:
    """The id of a job that `hpckit submit` has started at the made-up site."""
    done = hpckit(on, "submit", "--quiet", *AT_SITE, *words, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def submission(on: Controller, nodes: int, cache: str) -> list[str]:
    """The programs of one `hpckit submit`; `cache` is what it remembers.

    The job, which waits for its hour and takes no node from the next, is cancelled afterwards.
    """
    log = new_path("/tmp")
    words = ("submit", "--quiet", *AT_SITE, *HELD, f"--nodes={nodes}", "--", "true")
    done = hpckit(on, *words, env={"HPCKIT_COMMAND_LOG": log, "XDG_CACHE_HOME": cache})
    assert done.returncode == 0, done.stderr
    on.check(["scancel", done.stdout.strip()])
    return programs(on, log)


def life(on: Controller, nodes: int) -> list[str]:
    """The programs of a job of `nodes` nodes from `hpckit submit` to `hpckit cancel`."""
    log = new_path("/tmp")
    env = {"HPCKIT_COMMAND_LOG": log, "XDG_CACHE_HOME": new_path("/tmp")}
    job_id = submitted(on, f"--nodes={nodes}", "--gpus-per-node=8", "--", "true", env=env)
    for words in (("status", job_id), ("jobs",), ("cancel", job_id)):
        assert hpckit(on, *words, env=env).returncode == 0
    return programs(on, log)


# --- the Slurm that is made up -------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
def test_every_node_can_be_had(controllers: dict[str, Controller], name: str) -> None:
    """A slurmctld of that size answers, and all of its nodes are idle."""
    said = controllers[name].check(["sinfo", "--noheader", "--format=%T %D"])
    assert said.split() == ["idle~", str(SIZES[name])]


@pytest.mark.parametrize("name", [TREE, BLOCK, LARGE])
@pytest.mark.parametrize("share", ["32 nodes", "all nodes"])
def test_a_job_finds_its_place(controllers: dict[str, Controller], name: str, share: str) -> None:
    """A job with GPUs is told its nodes, however many it asks for; one node more is refused."""
    nodes = 32 if share == "32 nodes" else SIZES[name]
    answer = asked(controllers[name], f"--nodes={nodes}", "--gpus-per-node=h100:8")
    assert answer.accepted, answer.text
    assert "to start at" in answer.text
    assert not asked(controllers[name], f"--nodes={SIZES[name] + 1}").accepted


@pytest.mark.parametrize("name", [TREE, LARGE])
def test_a_job_under_one_switch(controllers: dict[str, Controller], name: str) -> None:
    """With one switch asked for, a leaf's nodes are what a job can have, and not one more."""
    assert asked(controllers[name], "--nodes=32", "--switches=1").accepted
    assert not asked(controllers[name], "--nodes=33", "--switches=1").accepted


def test_a_job_in_segments(controllers: dict[str, Controller]) -> None:
    """In blocks of 16, segments of 16 are taken, and refused where the job is not made of them."""
    assert asked(controllers[BLOCK], "--nodes=64", "--segment=16").accepted
    assert not asked(controllers[BLOCK], "--nodes=40", "--segment=16").accepted


# --- hpckit on it --------------------------------------------------------------------------------


def test_a_job_of_a_thousand_nodes(controllers: dict[str, Controller]) -> None:
    """Submitted, seen, listed and cancelled, as a job of one node is."""
    on = controllers[LARGE]
    job_id = submitted(on, "--nodes=1024", "--gpus-per-node=8", "--", "true")
    assert status(on, job_id)["state"] in {"PENDING", "CONFIGURING"}
    assert job_id in [job["job_id"] for job in document(hpckit(on, "jobs", "--json"))["jobs"]]
    assert hpckit(on, "cancel", job_id).returncode == 0
    assert status(on, job_id)["state"] == "CANCELLED"


def test_what_a_job_costs_does_not_grow(controllers: dict[str, Controller]) -> None:
    """A job of 9,984 nodes costs the commands that one of four does."""
    ran = {name: life(controllers[name], SIZES[name]) for name in (SMALL, LARGE)}
    assert ran[LARGE] == ran[SMALL]
    assert ran[LARGE].count("sbatch") == 1


def test_what_the_checks_cost_does_not_grow(controllers: dict[str, Controller]) -> None:
    """A submission that looks at 9,984 nodes, or remembers them, costs the commands that it does on
    four.
    """
    for name in (SMALL, LARGE):
        cache = new_path("/tmp")
        ran = {looks: submission(controllers[name], SIZES[name], cache) for looks in LOOKS}
        assert ran == LOOKS, name


def test_what_the_checks_refuse_costs_no_sbatch(controllers: dict[str, Controller]) -> None:
    """One node more than the 9,984 that there are is refused, and sbatch is not called."""
    on, log = controllers[LARGE], new_path("/tmp")
    words = ("submit", *AT_SITE, f"--nodes={MANY + 1}", "--", "true")
    done = hpckit(on, *words, env={"HPCKIT_COMMAND_LOG": log})
    assert done.returncode == 5
    assert f"partition main has {MANY} nodes, not {MANY + 1}" in done.stderr
    assert set(programs(on, log)) == {"scontrol", "srun", "sinfo"}
