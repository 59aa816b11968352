"""The sites that are shipped: a slurmctld that is as their site file says takes their goldens."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hpckit.core.units import parse_slurm_mem_bytes, parse_slurm_time_s, slurm_mem_mib_ceil
from tests.cluster.cluster import CHECKOUT, Cluster
from tests.cluster.controller import Controller, controller
from tests.cluster.made_up_slurm import conf_of_site
from tests.sizes import IS_WHOLE

CASES = CHECKOUT / "tests" / "golden" / "cases"
COUNTED = {
    "--nodes": "nodes",
    "--cpus-per-task": "cpus_per_node",
    "--gpus-per-node": "gpus_per_node",
    "--mem": "mem_per_node",
    "--time": "time_limit",
}
"""Option → the key of a partition that says how much of it there is."""
Release = tuple[int, int]
BLOCKS_SINCE: Release = (23, 11)


def site_tables() -> dict[str, dict[str, Any]]:
    """The site files that say what partitions there are, by the site's name."""
    files = sorted((CHECKOUT / "site_configs").glob("*.toml"))
    sites = [tomllib.loads(path.read_text(encoding="utf-8")) for path in files]
    return {site["name"]: site for site in sites if "partitions" in site}


def site_of(case: Path) -> str | None:
    """The shipped site for which a golden was rendered."""
    words = shlex.split((case / "args").read_text(encoding="utf-8"))
    if "--site" not in words or (case / "site.toml").exists():
        return None
    return words[words.index("--site") + 1]


SITES = site_tables()
SHAPES = list(
    {site.get("slurm", {}).get("topology"): name for name, site in SITES.items()}.values()
)
"""A site of each topology."""
GOLDENS = [(name, case) for case in sorted(CASES.iterdir()) if (name := site_of(case)) in SITES]


def release(text: str) -> Release:
    """The release that Slurm's version names: 24.11.5 is of (24, 11)."""
    found = re.search(r"(\d+)\.(\d+)", text)
    assert found, text
    return int(found[1]), int(found[2])


def months_between(one: Release, other: Release) -> int:
    """How far two releases are from each other."""
    return abs(12 * (one[0] - other[0]) + one[1] - other[1])


def docker(*words: str) -> str:
    """What docker prints."""
    done = subprocess.run(["docker", *words], capture_output=True, encoding="utf-8", check=True)
    return done.stdout


@pytest.fixture(scope="module")
def images(cluster: Cluster) -> dict[Release, str]:
    """The images of the test cluster that there are, by Slurm's release; its own comes first."""
    own = release(cluster.check(["sinfo", "--version"]))
    found = {own: cluster.image}
    for image in docker("images", "--format={{.ID}}", "hpckit-cluster").split():
        version = docker("run", "--rm", "--net=none", "--entrypoint=slurmctld", image, "-V")
        found.setdefault(release(version), image)
    return found


@pytest.fixture(scope="module", params=SITES)
def slurms(
    request: pytest.FixtureRequest, cluster: Cluster, images: dict[Release, str]
) -> Iterator[tuple[str, list[Controller]]]:
    """A site, and it as a slurmctld: of the nearest release; if it says none, of each that has
    blocks if it has them, and in a quick run of the newest of these.
    """
    name = request.param
    slurm = SITES[name].get("slurm", {})
    said = slurm.get("version")
    has_blocks = slurm.get("topology") == "block"
    taking = sorted(one for one in images if not has_blocks or one >= BLOCKS_SINCE)
    wanted = taking if IS_WHOLE else taking[-1:]
    if said:
        wanted = [min(images, key=lambda have: months_between(have, release(said)))]
    conf = conf_of_site(SITES[name])
    with ExitStack() as stack:
        starts = [controller(conf, image=images[one], environ=cluster.environ) for one in wanted]
        yield name, [stack.enter_context(start) for start in starts]


def asked(on: Controller, *options: str, script: str = "#!/bin/sh\n") -> str:
    """Why sbatch would not take `script` with `options`; empty if it would."""
    done = on.run(["sbatch", "--test-only", *options], input=script)
    return done.stderr if done.returncode else ""


def test_a_site_takes_its_goldens(slurms: tuple[str, list[Controller]]) -> None:
    """Every golden of a site would be taken by the site's Slurm; there is one at least."""
    name, controllers = slurms
    scripts = [case / "expected.sbatch" for site, case in GOLDENS if site == name]
    assert scripts
    for on in controllers:
        refused = {path.parent.name: asked(on, script=path.read_text()) for path in scripts}
        assert not any(refused.values()), refused


def one_more(option: str, stated: int | str) -> int:
    """One more than a site file states: a node, CPU or GPU, a MiB or a minute."""
    if option == "--mem":
        return slurm_mem_mib_ceil(parse_slurm_mem_bytes(str(stated))) + 1
    if option == "--time":
        return parse_slurm_time_s(str(stated)) // 60 + 1
    return int(stated) + 1


@pytest.mark.parametrize("slurms", list(SITES) if IS_WHOLE else SHAPES, indirect=True)
def test_a_site_has_what_it_says_and_no_more(slurms: tuple[str, list[Controller]]) -> None:
    """The nodes, CPUs, GPUs, memory and time that a partition's table states can be had at once;
    one more of any (a MiB, a minute) is refused, and so is a feature that it does not list.
    """
    name, (on, *_) = slurms
    for partition, said in SITES[name]["partitions"].items():
        most = {option: said[key] for option, key in COUNTED.items() if key in said}
        whole = [f"{option}={value}" for option, value in most.items()]
        there = ("--partition", partition, "--ntasks-per-node=1")
        assert not asked(on, *there, *whole)
        for option, value in most.items():
            assert asked(on, *there, f"{option}={one_more(option, value)}"), (partition, option)
        assert asked(on, *there, "--constraint=unheard-of")
