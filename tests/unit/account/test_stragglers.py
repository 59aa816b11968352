"""hpckit.account.stragglers: who the others wait for, and why."""

from __future__ import annotations

from typing import Any

import pytest

from hpckit.account.rules import RULES
from hpckit.account.stragglers import Straggler, Surroundings, stragglers, with_behind
from hpckit.account.values import GpuAccount, Share, Throttling, Window
from hpckit.core.index_list import IndexList
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.topology import Gpu, GpuUuid, NodeTopology, NvLink, Source
from tests.fakes.measured import HELD_S, gpu, gpus, node, rank, shares


def waiting(count: int = 3, idle: float = 200) -> list[GpuAccount]:
    """GPUs that wait a fifth of the time."""
    return [gpu(index, waste=shares(idle=idle + index)) for index in range(count)]


def behind(surroundings: Surroundings | None = None, **changes: Any) -> Straggler:
    """The one straggler of four GPUs, three of which wait."""
    odd = gpu(3, **{"waste": shares(idle=20), **changes})
    (one,) = stragglers([*waiting(), odd], surroundings)
    return one


def told(straggler: Straggler) -> tuple[str, ...]:
    """What explains it, in words."""
    return tuple(map(str, straggler.causes))


def topology(**changes: Any) -> NodeTopology:
    """Four GPUs with all links; `changes` are to the last."""
    links = tuple(NvLink(index=at, is_active=True) for at in range(18))
    devices = [
        Gpu(index=at, uuid=GpuUuid(f"GPU-{at}"), name="H100", nvlinks=links, cpus=IndexList("0-31"))
        for at in range(3)
    ]
    last = {"nvlinks": links, "cpus": IndexList("32-63"), **changes}
    odd = Gpu(index=3, uuid=GpuUuid("GPU-3"), name="H100", **last)
    return NodeTopology(source=Source(format="synthetic"), gpus=(*devices, odd))


def test_the_one_that_works_while_others_wait() -> None:
    """It works 98 % while the others work 80 %: 22 % longer, which costs them what they waited."""
    one = behind()
    assert one.behind_frac == pytest.approx(0.98 / 0.799 - 1)
    assert one.wasted_gpu_s == pytest.approx(3 * 181)


def rested(index: int, at_s: float, **changes: Any) -> GpuAccount:
    """A GPU on which nothing ran from `at_s` on, and that worked before as the others do."""
    window = Window(kind="idle", started_s=at_s, ended_s=HELD_S, is_late=True)
    return gpu(index, waste=shares(idle=HELD_S - at_s + 20), windows=(window,), **changes)


@pytest.mark.parametrize(
    "made",
    [
        gpus(8),
        [gpu(0)],
        gpus(waste=shares(idle=400)),  # one with less to do holds nobody up
        [*(gpu(at, waste=shares(no_process=HELD_S)) for at in range(3)), gpu(3), gpu(4)],
        gpus(sm_mean_mhz=1200.0, waste=shares(idle=500)),  # a low clock of a GPU that rests
        [*gpus(), *(gpu(at, sm_mean_mhz=1400.0, name="synthetic A100") for at in (4, 5))],
        [*gpus(), *(gpu(at, restart=1, waste=shares(idle=500)) for at in range(4))],
        gpus(waste=Share(useful_gpu_s=475, idle_gpu_s=25, unknown_gpu_s=500)),
        [rested(0, 300), rested(1, 700)],  # tasks of unequal length
        [*(rested(index, 850) for index in range(3)), gpu(3)],  # one that has more to do
    ],
)
def test_nobody_is_behind(made: list[GpuAccount]) -> None:
    """What scatters by a percent, has no peer, or rests as it may is no straggler."""
    assert stragglers(made) == ()


def test_by_busy_sms() -> None:
    """Where waiting is too short to be seen a straggler has busier SMs."""
    (one,) = stragglers(gpus(sm_active_frac=0.95))
    assert (one.uuid, one.wasted_gpu_s) == ("GPU-3", None)


def test_by_clock() -> None:
    """At equal work a GPU whose clock is a fifth lower is behind by that, which is said once."""
    (one,) = stragglers(gpus(sm_mean_mhz=1500.0))
    assert one.behind_frac == pytest.approx(1890 / 1500 - 1)
    assert f"{one.because}; {told(one)[0]}".count("1500 MHz") == 1


def seen(**known: Any) -> Surroundings:
    """What else is known, with the topology of its node."""
    return Surroundings(topologies={"n1": topology(**known.pop("links", {}))}, **known)


SEVENTEEN = {"nvlinks": tuple(NvLink(index=at, is_active=at != 11) for at in range(18))}


@pytest.mark.parametrize(
    ("changes", "surroundings", "causes"),
    [
        ({}, None, []),
        (
            {"throttling": Throttling(thermal_s=220.0, power_cap_s=300.0)},
            None,
            ["thermal throttling 22 % of the time, peers 0 %"],
        ),
        ({"throttling": Throttling(power_cap_s=400.0)}, None, []),  # as that of the others
        (
            {"throttling": Throttling(power_cap_s=900.0)},
            None,
            ["at its power limit 90 % of the time, peers 32 %"],
        ),
        ({"power_limit_w": 400.0}, None, ["power limit 400 W, peers 700 W"]),
        ({"sm_mean_mhz": 1500.0}, None, ["SM clock 1500 MHz, peers 1890 MHz"]),
        ({}, seen(links=SEVENTEEN), ["17 active NVLinks, peers 18"]),
        (
            {},
            seen(cpus={("n1", "GPU-3"): "0-7"}),
            ["its rank ran on CPUs 0-7, but the GPU is next to CPUs 32-63"],
        ),
        ({}, seen(cpus={("n1", "GPU-3"): "0-63"}), []),
        ({}, seen(cpus={("n1", "GPU-3"): "all"}), []),
        (
            {},
            Surroundings(nodes=(node("n1", cpu_throttled_s=3200.0),)),
            ["the job's CPUs on its node were throttled 10 % of the time"],
        ),
        # Throttled time is of all CPUs together: 100 s of 32 CPUs in 1000 s explain nothing.
        ({}, Surroundings(nodes=(node("n1", cpu_throttled_s=100.0),)), []),
    ],
)
def test_what_explains_it(
    changes: dict[str, Any], surroundings: Surroundings | None, causes: list[str]
) -> None:
    """What holds it down beyond what is usual for the others; else no cause is made up."""
    assert list(told(behind(surroundings, **changes))) == causes


@pytest.mark.parametrize("held", ["thermal_s", "power_brake_s", "power_cap_s"])
def test_what_held_clocks_down_names_the_rule_that_finds_it(held: str) -> None:
    """A cause that has a finding of its own says by which rule, and such a rule there is."""
    (cause,) = behind(throttling=Throttling(**{"power_cap_s": 300.0, held: 900.0})).causes
    assert cause.rule in {rule.name for rule in RULES}


def test_narrow_pcie() -> None:
    """A PCIe link with fewer lanes than those of its peers explains it."""
    addresses = [PciAddress(f"0000:0{at}:00.0") for at in range(4)]
    devices = [
        Gpu(index=at, uuid=GpuUuid(f"GPU-{at}"), name="H100", pci=address)
        for at, address in enumerate(addresses)
    ]
    tree = [
        PciDevice(address=address, link=PcieLink(width=8 if at == 3 else 16))
        for at, address in enumerate(addresses)
    ]
    made = NodeTopology(source=Source(format="synthetic"), gpus=tuple(devices), pci=tuple(tree))
    causes = told(behind(Surroundings(topologies={"n1": made})))
    assert causes == ("8 PCIe lanes, peers 16",)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("at_s", [150, 400])
def test_a_dead_rank_makes_no_stragglers(count: int, at_s: float) -> None:
    """Where a rank died early those that worked on are not behind, by time nor by busy SMs."""
    alive = [gpu(index) for index in range(count)]
    dead = rested(3, at_s, sm_active_frac=0.8 * at_s / HELD_S)
    assert stragglers([*alive, dead]) == ()


def test_waiting_beside_a_long_rest_is_seen() -> None:
    """A straggler is named by its peers' short pauses where all began with a long rest."""
    window = (Window(kind="idle", started_s=0.0, ended_s=200.0),)
    made = [gpu(index, waste=shares(idle=400), windows=window) for index in range(3)]
    odd = gpu(3, waste=shares(idle=210), windows=window)
    (one,) = stragglers([*made, odd])
    assert one.behind_frac == pytest.approx(790 / 600 - 1)


def test_a_straggler_beside_an_unused_and_a_late_gpu() -> None:
    """What never worked and what ended early do not hide who is behind."""
    unused = gpu(4, waste=shares(no_process=HELD_S), sm_active_frac=0.0)
    late = rested(5, 550, sm_active_frac=0.44)
    (one,) = stragglers([*gpus(sm_active_frac=0.95), unused, late])
    assert one.uuid == "GPU-3"


def test_what_others_waited_for_several_counts_once() -> None:
    """Four slow GPUs share what the four others waited, by how far each is behind."""
    slow = [gpu(index, waste=shares(idle=10)) for index in range(4)]
    found = stragglers([*slow, *(gpu(index, waste=shares(idle=310)) for index in range(4, 8))])
    assert [one.wasted_gpu_s for one in found] == pytest.approx([300.0] * 4)


def test_ranks_get_their_figures() -> None:
    """A rank is as far behind as its GPUs."""
    made = [*waiting(), gpu(3, waste=shares(idle=20))]
    ranks = with_behind([rank(0), rank(3)], made, stragglers(made))
    assert [one.behind_frac for one in ranks] == [0.0, pytest.approx(0.2265, abs=1e-3)]


def test_a_rank_that_did_nothing_is_not_compared() -> None:
    """One whose GPU never worked is no 0 % behind those that did."""
    made = [*waiting(), gpu(3, waste=Share(idle_gpu_s=HELD_S))]
    ranks = with_behind([rank(0), rank(3)], made, stragglers(made))
    assert [one.behind_frac for one in ranks] == [0.0, None]


def brief(known_s: float, held_s: float) -> list[GpuAccount]:
    """Four GPUs of which one works while the others wait, for so long."""
    made = [
        gpu(
            index,
            held_s=held_s,
            waste=Share(
                useful_gpu_s=known_s * (0.8 if index < 3 else 0.98),
                idle_gpu_s=known_s * (0.2 if index < 3 else 0.02),
                unknown_gpu_s=held_s - known_s,
            ),
        )
        for index in range(4)
    ]
    assert all(one.waste.total_gpu_s == pytest.approx(held_s) for one in made)
    return made


@pytest.mark.parametrize(("known_s", "held_s"), [(9.0, 9.0), (40.0, 100.0)])
def test_of_too_little_time_nobody_is_behind(known_s: float, held_s: float) -> None:
    """In under 10 s, or under half of the time, no GPU is a straggler and no rank has a figure."""
    made = brief(known_s, held_s)
    found = stragglers(made)
    assert found == ()
    assert [one.behind_frac for one in with_behind([rank(3)], made, found)] == [None]
    assert [one.uuid for one in stragglers(brief(11.0, 11.0))] == ["GPU-3"]
