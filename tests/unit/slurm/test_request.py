"""What a batch script asks for, as sbatch reads it."""

from __future__ import annotations

from typing import Any

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.request import Request, read_request


def asked(options: str, **variables: str) -> Request:
    """What a script with these options asks for."""
    return read_request(f"#!/bin/bash\n#SBATCH {options}\nsrun true\n", variables)


@pytest.mark.parametrize(
    ("options", "tres"),
    [
        ("", {"cpu": 1, "node": 1}),
        ("-N 4", {"cpu": 4, "node": 4}),
        ("-N2-4 --ntasks-per-node=8 -c4", {"cpu": 64, "node": 2}),
        ("-n 6 --ntasks-per-node=4", {"cpu": 6, "node": 2}),
        ("-N 5 -n 2 -c 3", {"cpu": 6, "node": 2}),
        (
            "-N 2 --gpus-per-node=h100:8 --mem=100G",
            {"cpu": 2, "node": 2, "mem": 204800, "gres/gpu": 16, "gres/gpu:h100": 16},
        ),
        ("--gres=gpu:2(S:0-1),nic:1", {"cpu": 1, "node": 1, "gres/gpu": 2}),
        (
            "--gpus=a100:2,h100:1 --cpus-per-gpu=4",
            {"cpu": 12, "node": 1, "gres/gpu": 3, "gres/gpu:a100": 2, "gres/gpu:h100": 1},
        ),
        ("-n 4 --gpus-per-task=1", {"cpu": 4, "node": 1, "gres/gpu": 4}),
        ("-n 2 --tres-per-task=cpu=4,gres/gpu=2", {"cpu": 2, "node": 1, "gres/gpu": 4}),
        ("-n 8 --mem-per-cpu=1G", {"cpu": 8, "node": 1, "mem": 8192}),
        ("-L matlab:2,ansys", {"cpu": 1, "node": 1, "license/matlab": 2, "license/ansys": 1}),
        ("-N 3 -n 12 -O", {"cpu": 3, "node": 3}),
        ("--mem=0", {"cpu": 1, "node": 1}),
    ],
)
def test_what_slurm_counts(options: str, tres: dict[str, int]) -> None:
    """Tasks, CPUs, GPUs and memory add up to the TRES that limits are of."""
    assert asked(options).tres() == tres


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ("-t 1-0", "time_s", 86400),
        ("-t UNLIMITED", "time_s", None),
        ("-t 2:00:00 --time-min=30", "least_time_s", 1800),
        ("-a 0-9:3,20%2", "array_size", 5),
        ("-C 'a&b'", "features", (("a", "b"),)),
        ("-C [a|b]", "features", (("a",), ("b",))),
        ("-C a*2", "features", ()),
        ("-p gpu,long", "partitions", ("gpu", "long")),
        ("-N 2 --ntasks-per-node=3 -c 2", "cpus_per_node", 6),
        ("--gpus=10 -N 4", "gpus_per_node", 3),
        ("--mem-per-gpu=10G --gpus-per-node=4", "mem_per_node_mib", 40960),
    ],
)
def test_one_answer(options: str, name: str, value: Any) -> None:
    """Each question that the checks have is answered."""
    assert getattr(asked(options), name) == value


def test_who_overrules_whom() -> None:
    """A word of the command line overrules a variable, and that the script; lines are kept."""
    script = "#!/bin/bash\n# about\n\n#SBATCH -p gpu -t 10\n#SBATCH -p long\n"
    request = read_request(script, {"SBATCH_TIMELIMIT": "20"}, ("--qos", "high", "-N2"))
    assert (request.text("partition"), request.line_no("partition")) == ("long", 5)
    assert (request.time_s, request.line_no("time")) == (1200, None)
    assert (request.text("qos"), request.nodes) == ("high", 2)


def test_only_what_stands_before_the_first_command() -> None:
    """Lines below a command, in a comment or of another job of the script do not count."""
    text = "#!/bin/bash\n##SBATCH -N 9\n#SBATCH -N 2\n{}\n#SBATCH -N 5\n"
    assert read_request(text.format("true")).nodes == 2
    assert read_request(text.format("#SBATCH hetjob")).nodes == 2
    assert read_request(text.format("   # only a comment")).nodes == 5


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--time", "has no value"),
        ("train.py", "is no option"),
        ("--comment='open", "open quote"),
        ("--no", "ambiguous"),
    ],
)
def test_what_sbatch_does_not_take(options: str, told: str) -> None:
    """The line and what would do instead."""
    with pytest.raises(ParseError) as refused:
        asked(options)
    assert refused.value.line_no == 2
    assert told in f"{refused.value} {refused.value.hint}"


def test_options_of_plugins() -> None:
    """What is not sbatch's own is kept with its value: a SPANK plugin such as pyxis may take it."""
    request = asked("--container-image a.sqsh --container-writable --nodse=2 -N3")
    assert request.not_sbatchs_own == ("container-image", "container-writable", "nodse")
    assert (request.text("container-image"), request.nodes) == ("a.sqsh", 3)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--ntasks-per-n 4", "ntasks-per-node"),
        ("--part gpu", "partition"),
        ("--share", "oversubscribe"),
    ],
)
def test_a_name_cut_short(options: str, name: str) -> None:
    """The beginning of a name will do where it is one option's alone, and an old name."""
    assert name in asked(options).options
