"""Options that hpckit writes itself are refused in the open tables."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ConfigError
from hpckit.script.options import OWNED_BY_SBATCH, OWNED_BY_SRUN, extra_options
from hpckit.script.plan import Option
from tests.fakes.prepared import prepared


@pytest.mark.parametrize("name", sorted(OWNED_BY_SBATCH))
def test_an_option_of_sbatch_that_has_a_key(name: str) -> None:
    """An option that a key says is refused under slurm.extra, and the key is named."""
    with pytest.raises(ConfigError) as caught:
        extra_options({name: "x"}, OWNED_BY_SBATCH, "slurm.extra")
    assert caught.value.key == f"slurm.extra.{name}"
    assert OWNED_BY_SBATCH[name] in str(caught.value.hint)


@pytest.mark.parametrize("name", sorted(OWNED_BY_SRUN))
def test_an_option_of_srun_that_has_a_key(name: str) -> None:
    """The same for slurm.srun_extra."""
    with pytest.raises(ConfigError) as caught:
        extra_options({name: True}, OWNED_BY_SRUN, "slurm.srun_extra")
    assert caught.value.key == f"slurm.srun_extra.{name}"


@pytest.mark.parametrize("value", ["gpu:8", "gpu", "gpu:h100:8"])
def test_gpus_are_not_asked_twice(value: str) -> None:
    """--gres=gpu is refused beside --gpus-per-node."""
    with pytest.raises(ConfigError, match="gres=gpu"):
        extra_options({"gres": value}, OWNED_BY_SBATCH, "slurm.extra")


def test_other_options_are_free() -> None:
    """Any other option is written: true bare, false not at all, a number as text."""
    given: dict[str, str | int | bool] = {
        "gres": "nvme:1",
        "contiguous": True,
        "spread-job": False,
        "nice": 0,
        "x": "",
    }
    assert extra_options(given, OWNED_BY_SBATCH, "slurm.extra") == (
        Option(name="gres", value="nvme:1"),
        Option(name="contiguous"),
        Option(name="nice", value="0"),
        Option(name="x", value=""),
    )


def test_what_is_written_is_owned() -> None:
    """Every option that a full job writes is owned, so that none can be written twice."""
    text = """
        name = "x"
        command = ["x"]
        resources = { nodes = 2, ntasks_per_node = 2, cpus_per_task = 3, gpus_per_node = 4, \
mem = "1G", time_limit = "1", exclusive = true }
        launch = { kind = "mpi", mpi = "pmix" }
        slurm = { account = "a", partition = "b", qos = "c", constraint = "d", reservation = "e", \
nodelist = "f", exclude = "g", dependency = "h", licenses = "i", array = "1", begin = "now", \
signal = "USR2", requeue = true, comment = "j", mail_user = "k", mail_type = ["END"] }
    """
    plan = prepared(text).plan
    assert {option.name for option in plan.directives} <= set(OWNED_BY_SBATCH)
    assert {option.name for option in plan.srun} <= set(OWNED_BY_SRUN)
