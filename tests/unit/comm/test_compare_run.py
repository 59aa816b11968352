"""A run beside what its machine should give: the release and the ranks are those that ran."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from hpckit.comm.facts import CommFacts
from hpckit.comm.run.show import compare_run
from hpckit.core.findings import Severity
from hpckit.spec.platform import NcclVersion, Platform
from tests.fakes.machines import dgx_h100, mi300x
from tests.fakes.slurm_records import record_text

H100 = Platform(gpu="h100", gpus=8, nics=8, nic_gbits=400.0)
A100 = Platform(gpu="a100", gpus=8, nics=8, nic_gbits=200.0)
FACTS = CommFacts(nodes=2, version=NcclVersion(2, 30, 7))
TABLE = record_text("nccl-tests-2.19.6", "synthetic-two-nodes")
JSON = record_text("nccl-tests-2.19.6", "synthetic-json")


def predicted(text: str, collective: str = "AllReduce") -> float | None:
    """The bus bandwidth in GB/s that a run on DGX H100 is held against."""
    found = compare_run(text.encode(), FACTS, H100, None).predicted.get(collective)
    return None if found is None else found / 1e9


def rules(
    text: str, platform: Platform = H100, settings: tuple[tuple[str, str], ...] = ()
) -> set[str]:
    """The rules that find something in a run on a machine of this site."""
    return {
        one.rule for one in compare_run(text.encode(), FACTS, platform, None, settings).findings
    }


def test_the_release_that_ran_counts() -> None:
    """NCCL 2.27.7 wrote this table; what was told of the job is another."""
    text = "\n".join(line for line in TABLE.splitlines() if "gpu-02" not in line)
    assert predicted(text) == pytest.approx(466.67, abs=0.01)
    assert predicted(text.replace("2.27.7", "2.30.7")) == pytest.approx(476.0)


def test_json_s_ranks_are_processes_with_all_their_gpus() -> None:
    """It names the first GPU of each process: one of 8 threads is a node of 8 ranks."""
    text = json.loads(JSON)
    text["config"]["ngpus"] = 8
    assert predicted(json.dumps(text), "ReduceScatter") == pytest.approx(360.0)
    assert predicted(JSON, "ReduceScatter") is None


def test_a_run_on_an_inspected_node_is_held_against_it() -> None:
    """Without a site the node says what its links allow."""
    found = compare_run(TABLE.encode(), FACTS, Platform(), dgx_h100())
    assert found.predicted["AllReduce"] > 350e9


def test_nvls_is_missed_where_the_machine_has_it() -> None:
    """A board of H100 has NVLink SHARP, and one of A100 has not, whatever a variable turns off."""
    text = TABLE + "gpu-01:4100:2 [0] NCCL INFO NVLS multicast support is not available on dev 0\n"
    text += said(("NCCL_NVLS_ENABLE", "0"))
    assert {"nvls-unavailable", "nvls-disabled"} <= rules(text)
    assert not {"nvls-unavailable", "nvls-disabled"} & rules(text.replace("H100", "A100"), A100)


def test_a_log_alone_tells_its_nodes_and_ranks() -> None:
    """A job that is no benchmark has NCCL's lines, and what it misses is found too."""
    share = "comm 0x1 rank {} nRanks 8 nNodes 1 localRanks 8 localRank {} MNNVL 0"
    done = "comm 0x1 rank {} nranks 8 cudaDev 0 busId 7000 commId 0x1 - Init COMPLETE"
    said = ["NVLS multicast support is not available on dev 0", share.format(0, 0), done.format(0)]
    text = "".join(f"n1:1:2 [0] NCCL INFO {one}\n" for one in said)
    assert rules(text) == {"nvls-unavailable"}


def test_why_nothing_is_predicted_is_said() -> None:
    """No machine, a machine that lacks a fact, and output that does not tell its ranks."""
    table = TABLE[TABLE.index("#       size") :]

    def why(text: str, platform: Platform) -> str | None:
        return compare_run(text.encode(), FACTS, platform, None).unpredicted

    assert "--topology or --site" in (why(TABLE, Platform()) or "")
    assert "missing in the site file" in (why(TABLE, Platform(gpu="h100")) or "")
    assert "how many nodes" in (why(table, H100) or "")
    assert why(TABLE, H100) is None


ONE_NODE = "\n".join(line for line in TABLE.splitlines() if "gpu-02" not in line)
RINGS = (("NCCL_ALGO", "Ring"), ("NCCL_PXN_DISABLE", "1"), ("NCCL_NVLS_ENABLE", "0"))


def said(*settings: tuple[str, str]) -> str:
    """The lines in which NCCL names its variables."""
    return "".join(
        f"gpu-01:4100:2 [0] NCCL INFO {name} set by environment to {value}.\n"
        for name, value in settings
    )


def test_algorithms_that_the_run_turned_off_do_not_count() -> None:
    """Rings alone give 360 GB/s of the 466.67 that NVLS would, and NVLS is still missed."""
    text = f"{ONE_NODE}\n{said(('NCCL_ALGO', 'Ring'), ('NCCL_NVLS_ENABLE', '0'))}"
    assert predicted(text) == pytest.approx(360.0)
    assert {"nvls-disabled", "algorithm-forced"} <= rules(text)


def test_what_hpckit_itself_sets_is_no_finding() -> None:
    """Where the provider asks for the variable, nobody is told to unset it."""
    own = {"nvls-disabled", "algorithm-forced", "pxn-disabled"}
    text = TABLE + said(*RINGS)
    assert rules(text) & own == own
    assert rules(text, H100, RINGS) & own == set()
    assert rules(text, H100, (("NCCL_ALGO", "Tree"),)) & own == own


def test_a_run_that_names_no_variable_had_those_that_hpckit_sets() -> None:
    """A table with NCCL's version alone does not tell; a log without NCCL_ALGO does."""
    found = compare_run(ONE_NODE.encode(), FACTS, H100, None, RINGS)
    assert found.predicted["AllReduce"] == pytest.approx(360e9)
    text = f"{ONE_NODE}\ngpu-01:4100:2 [0] NCCL INFO Using network IB\n"
    found = compare_run(text.encode(), FACTS, H100, None, RINGS)
    assert found.predicted["AllReduce"] > 460e9


def test_where_a_profile_sets_variables_a_shortfall_is_a_note() -> None:
    """What the provider's file sets may turn algorithms off."""
    text = TABLE.encode()
    slow = Platform(gpu="h100", gpus=8, nics=8, nic_gbits=3200.0, profile="/opt/profile.sh")
    found = compare_run(text, FACTS, slow, None).findings
    (one,) = (each for each in found if each.rule == "below-predicted")
    assert one.severity is Severity.NOTE
    assert "settings of the provider's profile are unknown" in one.because


def test_each_size_of_a_job_is_held_against_its_own_figure() -> None:
    """One file of 1 and 2 nodes: what was predicted is of the first, and the second says so."""
    slow = TABLE.replace("195.80  367.12", "195.80  300.00")
    found = compare_run(f"{ONE_NODE}\n{slow}".encode(), FACTS, H100, None)
    assert len(found.run.tests) == 2
    assert (
        found.unpredicted == "1 test on other nodes or ranks than the first: use one file per test"
    )
    lines = [one.line_no for one in found.findings if one.rule == "below-predicted"]
    assert lines == [1]


def test_groups_side_by_side_are_held_against_nothing() -> None:
    """NCCL_TESTS_SPLIT_MASK=0x7: bus bandwidth is that of a group of one GPU a node."""
    text = re.sub(r"Group  0 (.*device  ([0-7]))", r"Group  \2 \1", TABLE)
    found = compare_run(text.encode(), FACTS, H100, None)
    assert "several groups" in (found.unpredicted or "")
    assert not found.predicted
    assert "below-predicted" not in {one.rule for one in found.findings}


def test_nodes_that_each_ran_alone_are_no_run_of_several_nodes() -> None:
    """Screening without MPI: two nodes with 8 GPUs each, in one file."""
    text = re.sub(r"Rank +(\d+)", lambda one: f"Rank {int(one[1]) % 8}", TABLE)
    text += "gpu-01:4100:2 [0] NCCL INFO Using network Socket\n"
    found = compare_run(text.encode(), FACTS, H100, None)
    assert "2 copies of one run" in (found.unpredicted or "")
    assert not found.predicted
    assert "network-socket" not in {one.rule for one in found.findings}


def test_a_run_on_other_gpus_is_held_against_nothing() -> None:
    """--site of H100 for a log of A100: neither bandwidth nor NICs nor NVLS are those."""
    nics = "gpu-01:4100:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
    text = TABLE + nics
    a100 = text.replace("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")
    assert "nics-fewer" in rules(text)
    assert rules(a100) == set()
    why = compare_run(a100.encode(), FACTS, H100, None).unpredicted
    assert why == "it ran on NVIDIA A100-SXM4-80GB, but the machine given here has h100"
    why = compare_run(a100.encode(), FACTS, Platform(), dgx_h100()).unpredicted or ""
    assert why.startswith("it ran on NVIDIA A100-SXM4-80GB")


def test_a_gpu_of_another_name_and_the_same_architecture_is_compared() -> None:
    """H200 has H100's links, and what has no known name is no other."""
    for gpu in ("NVIDIA H200", "Graphics Device"):
        assert predicted(ONE_NODE.replace("NVIDIA H100 80GB HBM3", gpu)) is not None


def test_nvls_that_two_gpus_have_not_is_not_turned_off() -> None:
    """NCCL 2.27 takes it for three or more."""
    ranks = [line for line in ONE_NODE.splitlines() if not re.match(r"#  Rank  [2-7]", line)]
    text = "\n".join([*ranks, said(("NCCL_NVLS_ENABLE", "0"))])
    for release, fires in (("2.27.7", False), ("2.30.7", True)):
        assert ("nvls-disabled" in rules(text.replace("2.27.7", release))) is fires


def test_what_the_links_allow_at_most_is_no_reproach_to_rccl_between_nodes() -> None:
    """4 x 8 MI300X: rings as wide as the NICs are no model of what RCCL reaches; one node is."""
    head, foot = TABLE[: TABLE.index("#  Rank")], TABLE[TABLE.index("NCCL version") :]
    node = mi300x()
    node = replace(node, gpus=tuple(replace(one, architecture="gfx942") for one in node.gpus))
    rank = "#  Rank {0} Group  0 Pid 41{0} on n{1} device {2} [0000:0{2}:00] AMD Instinct MI300X\n"

    def severity(nodes: int) -> list[Severity]:
        ranks = "".join(rank.format(at, at // 8, at % 8) for at in range(8 * nodes))
        text = (head + ranks + foot).replace("367.12", "200.00").replace("366.39", "200.00")
        text = text.replace("366.00", "199.00").replace("365.27", "199.00")
        found = compare_run(text.encode(), FACTS, Platform(), node).findings
        return [one.severity for one in found if one.rule == "below-predicted"]

    assert severity(1) == [Severity.WARNING]
    assert severity(4) == [Severity.NOTE]
