"""Every row of the facts about Slurm's releases, as sbatch and srun of three of them see it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

import pytest

from hpckit.script.releases import OPTION_FACTS, PAIR_FACTS, Program, excludes, takes
from hpckit.slurm.values import SlurmVersion
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf

VALUES: Mapping[str, str] = {
    "core-spec": "1",
    "cpu-bind": "cores",
    "cpus-per-gpu": "1",
    "cpus-per-task": "1",
    "distribution=arbitrary": " --nodelist=c1 --ntasks=1",
    "gpus-per-node": "1",
    "gpus-per-socket": "1 --sockets-per-node=1",
    "gpus-per-task": "1",
    "gres=gpu": ":1",
    "hint": "nomultithread",
    "ignore-signals": "TERM",
    "mem": "1G",
    "mem-per-cpu": "1G",
    "mem-per-gpu": "1G --gpus=1",
    "mem-update": "10@60",
    "nodes": "1",
    "ntasks-per-core": "1",
    "ntasks-per-gpu": "1 --gpus=1",
    "ntasks-per-node": "1",
    "segment": "1",
    "switches": "1",
    "thread-spec": "1",
    "threads-per-core": "1",
    "tres-per-task": "cpu:1",
    "tres-per-task=cpu": ":1",
    "tres-per-task=gres/gpu": ":1",
}
"""What has to follow an option so that nothing but the fact itself could be held against it."""
CALLS = {
    Program.SBATCH: "sbatch --verbose --test-only {} --wrap true",
    Program.SRUN: "srun --verbose --test-only {} true",
}
MEANINGS: Mapping[str, re.Pattern[str]] = {
    "ignored": re.compile(r"Ignoring --"),
    "refused": re.compile(
        r"unrecognized option|Invalid --\S+ specification|please use one or the other"
        r"|doesn't allow an argument"
        r"|(?:mutually exclusive|incompatible)(?: with --|\.?$)",
        re.MULTILINE,
    ),
    "taken": re.compile(
        r"Job \d+ to start at|fatal: --wait-for-children only compatible with proctrack/cgroup"
        # --requeue=expedite where SchedulerParameters has no enable_expedited_requeue
        r"|allocation failure: Requested operation not supported on this system"
    ),
}
"""What the words of a command mean; the first that is found counts."""
MARK = "### "


@pytest.fixture(scope="module", params=["bookworm", "trixie", "forky"])
def cluster(cluster_of: ClusterOf, request: pytest.FixtureRequest) -> Cluster:
    """A cluster of each release: 22.05, 24.11 and 26.05."""
    return cluster_of(request.param)


@pytest.fixture(scope="module")
def version(cluster: Cluster) -> SlurmVersion:
    """The release that runs there."""
    return SlurmVersion.of(cluster.check(["sbatch", "--version"]).split()[-1])


def words(option: str) -> str:
    """The option as it is said on a command line."""
    value = VALUES.get(option, "")
    return f"--{option}{'' if '=' in option or not value else '='}{value}"


def is_known(option: str, program: Program, version: SlurmVersion) -> bool:
    """Whether no row says that the program does not take the option, whatever its value."""
    name = option.partition("=")[0]
    rows = [fact for fact in OPTION_FACTS if fact.option == name and program in fact.programs]
    return all(takes(fact, version) for fact in rows)


def answers(cluster: Cluster, lines: Iterable[str]) -> dict[str, str]:
    """What each command line leads to: ignored, refused, taken, or else all that it prints."""
    script = "\n".join(f"echo {shlex.quote(MARK + line)}; {line} 2>&1" for line in lines)
    said = {}
    for block in cluster.run(["sh"], input=script).stdout.split(MARK)[1:]:
        line, _, text = block.partition("\n")
        said[line] = next((name for name, one in MEANINGS.items() if one.search(text)), text)
    return said


def test_every_option(cluster: Cluster, version: SlurmVersion) -> None:
    """Sbatch and srun take an option, or do not, as the table says of their release."""
    expected = {}
    for fact in OPTION_FACTS:
        otherwise = "refused" if fact.is_refused else "ignored"
        for program in fact.programs:
            line = CALLS[program].format(words(fact.option))
            expected[line] = "taken" if takes(fact, version) else otherwise
    assert answers(cluster, expected) == expected


def test_every_pair(cluster: Cluster, version: SlurmVersion) -> None:
    """Sbatch and srun refuse two options together, or drop one, as the table says of theirs."""
    expected = {}
    for fact in PAIR_FACTS:
        pair = (fact.first, fact.second)
        for program in fact.programs:
            line = CALLS[program].format(" ".join(map(words, pair)))
            otherwise = "refused" if fact.is_refused else "ignored"
            known = all(is_known(option, program, version) for option in pair)
            expected[line] = otherwise if excludes(fact, version) or not known else "taken"
    assert answers(cluster, expected) == expected
