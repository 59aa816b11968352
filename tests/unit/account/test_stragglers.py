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


def test_a_clean_job_has_none() -> None:
    """GPUs that scatter by a percent have no straggler."""
    assert stragglers(gpus(8)) == ()


def test_the_one_that_works_while_others_wait() -> None:
    """The straggler works 98 % while the others work 80 %: its work takes 22 % longer."""
    one = behind()
    assert one.behind_frac == pytest.approx(0.98 / 0.799 - 1)


def test_what_the_others_waited() -> None:
    """It costs the others the time that they worked less."""
    assert behind().wasted_gpu_s == pytest.approx(3 * 181)


def test_a_gpu_with_less_to_do_is_no_straggler() -> None:
    """A GPU that waits more than the others holds nobody up."""
    assert stragglers(gpus(waste=shares(idle=400))) == ()


def test_idle_gpus_are_no_peers() -> None:
    """A GPU that works beside GPUs that do nothing is no straggler."""
    empty = [gpu(index, waste=shares(no_process=HELD_S)) for index in range(3)]
    assert stragglers([*empty, gpu(3), gpu(4)]) == ()


def test_two_gpus() -> None:
    """Of two GPUs the one that the other waits for is the straggler."""
    (one,) = stragglers([gpu(0, waste=shares(idle=300)), gpu(1)])
    assert one.uuid == "GPU-1"


def test_one_gpu() -> None:
    """A lone GPU has no peers."""
    assert stragglers([gpu(0)]) == ()


def test_by_busy_sms() -> None:
    """Where waiting is too short to be seen a straggler has busier SMs."""
    (one,) = stragglers(gpus(sm_active_frac=0.95))
    assert (one.uuid, one.wasted_gpu_s) == ("GPU-3", None)


def test_by_clock() -> None:
    """At equal work a GPU whose clock is a fifth lower is behind by that, which is said once."""
    (one,) = stragglers(gpus(sm_mean_mhz=1500.0))
    assert one.behind_frac == pytest.approx(1890 / 1500 - 1)
    assert f"{one.because}; {told(one)[0]}".count("1500 MHz") == 1


def test_a_low_clock_of_a_gpu_that_rests() -> None:
    """A GPU that is idle half of the time has a low mean clock, and is no straggler."""
    assert stragglers(gpus(sm_mean_mhz=1200.0, waste=shares(idle=500))) == ()


def test_kinds_are_not_mixed() -> None:
    """GPUs of another kind are no peers."""
    mixed = [gpu(index, sm_mean_mhz=1400.0, name="synthetic A100") for index in (4, 5)]
    assert stragglers([*gpus(), *mixed]) == ()


def test_incarnations_are_not_mixed() -> None:
    """What a GPU did before a requeue is not held against it."""
    before = [gpu(index, restart=1, waste=shares(idle=500)) for index in range(4)]
    assert stragglers([*gpus(), *before]) == ()


def test_unknown_time_is_left_out() -> None:
    """A GPU of which half is unknown is judged by the other half."""
    half = Share(useful_gpu_s=475, idle_gpu_s=25, unknown_gpu_s=500)
    assert stragglers(gpus(waste=half)) == ()


def test_no_cause() -> None:
    """Where nothing explains it no cause is made up."""
    assert behind().causes == ()


def test_heat() -> None:
    """Heat that held its clocks down explains it."""
    causes = told(behind(throttling=Throttling(thermal_s=220.0, power_cap_s=300.0)))
    assert causes == ("heat held its clocks down 22 % of the time, the others 0 %",)


@pytest.mark.parametrize("held", ["thermal_s", "power_brake_s", "power_cap_s"])
def test_what_held_clocks_down_names_the_rule_that_finds_it(held: str) -> None:
    """A cause that has a finding of its own says by which rule, and such a rule there is."""
    (cause,) = behind(throttling=Throttling(**{"power_cap_s": 300.0, held: 900.0})).causes
    assert cause.rule in {rule.name for rule in RULES}


def test_usual_power_cap_is_no_cause() -> None:
    """A power limit that holds the others as well explains nothing."""
    assert behind(throttling=Throttling(power_cap_s=400.0)).causes == ()


def test_power_cap() -> None:
    """A power limit that holds it far longer than the others explains it."""
    (cause,) = told(behind(throttling=Throttling(power_cap_s=900.0)))
    assert "90 % of the time, the others 32 %" in cause


def test_lower_limit() -> None:
    """A lower power limit explains it."""
    (cause,) = told(behind(power_limit_w=400.0))
    assert cause == "its power limit is 400 W, the others' 700 W"


def test_lower_clock() -> None:
    """A lower clock explains it."""
    assert told(behind(sm_mean_mhz=1500.0)) == ("its SM clock was 1500 MHz, the others' 1890 MHz",)


def test_fewer_nvlinks() -> None:
    """Fewer active NVLinks than its peers explain it."""
    links = tuple(NvLink(index=at, is_active=at != 11) for at in range(18))
    made = topology(nvlinks=links)
    causes = told(behind(Surroundings(topologies={"n1": made})))
    assert causes == ("it has 17 active NVLinks, the others 18",)


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
    assert causes == ("its PCIe link has 8 lanes, the others' 16",)


def test_wrong_cpus() -> None:
    """A rank whose CPUs are all on the far side of its GPU explains it."""
    far = Surroundings(topologies={"n1": topology()}, cpus={("n1", "GPU-3"): "0-7"})
    (cause,) = told(behind(far))
    assert cause == "its rank ran on CPUs 0-7, none of which is beside it (32-63 are)"


def test_right_cpus() -> None:
    """A rank that may also run beside its GPU is not bound wrongly."""
    near = Surroundings(topologies={"n1": topology()}, cpus={("n1", "GPU-3"): "0-63"})
    assert behind(near).causes == ()


def test_odd_cpus() -> None:
    """A list of CPUs that cannot be read explains nothing."""
    odd = Surroundings(topologies={"n1": topology()}, cpus={("n1", "GPU-3"): "all"})
    assert behind(odd).causes == ()


def test_cpu_quota() -> None:
    """A quota on its node's CPUs explains it."""
    held = Surroundings(nodes=(node("n1", cpu_throttled_s=3200.0),))
    words = "the job's CPUs on its node were held back 10 % of their time"
    assert told(behind(held)) == (words,)


def test_a_moment_of_a_cpu_quota() -> None:
    """Throttled time is of all CPUs together: 100 s of 32 CPUs in 1000 s explain nothing."""
    held = Surroundings(nodes=(node("n1", cpu_throttled_s=100.0),))
    assert behind(held).causes == ()


def rested(index: int, at_s: float, **changes: Any) -> GpuAccount:
    """A GPU on which nothing ran from `at_s` on, and that worked before as the others do."""
    window = Window(kind="idle", started_s=at_s, ended_s=HELD_S, is_late=True)
    return gpu(index, waste=shares(idle=HELD_S - at_s + 20), windows=(window,), **changes)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("at_s", [150, 400])
def test_a_dead_rank_makes_no_stragglers(count: int, at_s: float) -> None:
    """Where a rank died early those that worked on are not behind, by time nor by busy SMs."""
    alive = [gpu(index) for index in range(count)]
    dead = rested(3, at_s, sm_active_frac=0.8 * at_s / HELD_S)
    assert stragglers([*alive, dead]) == ()


def test_tasks_of_unequal_length_are_no_peers() -> None:
    """Of tasks that end at 30 % and at 70 % of the job none waits for the other."""
    assert stragglers([rested(0, 300), rested(1, 700)]) == ()


def test_what_ran_alone_at_the_end_is_no_straggler() -> None:
    """Where the others end at once one that goes on has more to do, and held nobody up."""
    assert stragglers([*(rested(index, 850) for index in range(3)), gpu(3)]) == ()


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


def test_a_rank_alone_is_not_compared() -> None:
    """A rank without another has no peers to be behind."""
    made = waiting(1)
    assert with_behind([rank(0)], made, stragglers(made))[0].behind_frac is None


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


def test_after_ten_seconds_one_is_behind() -> None:
    """The same in 11 s is a straggler."""
    assert [one.uuid for one in stragglers(brief(11.0, 11.0))] == ["GPU-3"]


def test_a_rank_without_samples() -> None:
    """Of a rank whose GPUs were not sampled neither is known."""
    (one,) = with_behind([rank(0)], [gpu(0, waste=Share(unknown_gpu_s=HELD_S))], ())
    assert (one.busy_frac, one.behind_frac) == (None, None)
