"""Small files below a root, read live."""

from __future__ import annotations

import os
from pathlib import Path

from hpckit.core.file_tree import FileTree
from hpckit.node.capture.sysfs import MOST_BYTES, SysfsFiles
from hpckit.node.capture.sysfs_files import RECORDED_PATTERNS, SYSFS_PATTERNS, parse_sysfs
from hpckit.spec.nic_kind import NicKind
from tests.fakes.sysfs_tree import (
    Card,
    Machine,
    Switch,
    dgx_h100,
    forty_nics,
    write_machine,
)


def write(root: Path, files: dict[str, str]) -> None:
    """Files below a folder; a text that begins with `->` is a link."""
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            place.symlink_to(text.removeprefix("->"))
        else:
            place.write_text(text)


def test_only_what_matches_is_read(tmp_path: Path) -> None:
    """Names are matched in whole, and nothing else is in the answer."""
    write(
        tmp_path, {"cpu0/id": "0", "cpu10/id": "1", "cpufreq/id": "2", "cpu1x/id": "3", "id": "4"}
    )
    assert SysfsFiles(tmp_path).read(["cpu[0-9]/id", "cpu10/{id,absent}"]).texts == {
        "cpu0/id": "0",
        "cpu10/id": "1",
    }
    assert len(SysfsFiles(tmp_path).read(["*/id"]).texts) == 4


def test_conditions(tmp_path: Path) -> None:
    """`?` keeps to folders in which a file was found, `!` to those without."""
    write(
        tmp_path,
        {
            "a/x": "1", "a/k": "same", "a/u": "-", "b/x": "2", "b/k": "same", "c/x": "3",
            "d/x": "4", "d/k": "other",
        },
    )  # fmt: skip
    seen = ["*/{k,u}"]
    assert set(SysfsFiles(tmp_path).read([*seen, "*/x?u"]).texts) == {
        "a/x",
        "a/k",
        "a/u",
        "b/k",
        "d/k",
    }
    without = SysfsFiles(tmp_path).read([*seen, "*/x!k"]).texts
    assert [path for path in without if path.endswith("x")] == ["c/x"]


def test_cpus_that_say_the_same_are_passed_over(tmp_path: Path) -> None:
    """`~c` reads `c` and the file of one CPU of each list; `!c` does not take the others for it."""
    write(
        tmp_path,
        {
            "cpu0/x": "0", "cpu0/k": "0,2", "cpu1/x": "1", "cpu1/k": "1,3",
            "cpu2/x": "2", "cpu2/k": "0,2", "cpu3/x": "3", "cpu3/k": "no list", "cpu4/x": "4",
        },
    )  # fmt: skip
    texts = SysfsFiles(tmp_path).read(["cpu[0-9]*/x~k", "cpu[0-9]*/x!k"]).texts
    assert sorted(texts) == ["cpu0/k", "cpu0/x", "cpu1/k", "cpu1/x", "cpu4/x"]


def test_what_another_folder_has_told_is_passed_over(tmp_path: Path) -> None:
    """`^f` keeps to what is no link to something that has a link of its name in `f`."""
    write(
        tmp_path,
        {
            "dev/pci/x": "1", "dev/usb/x": "2", "bus/pci": "->../dev/pci",
            "class/a": "->../dev/pci", "class/b": "->../dev/usb", "class/c/x": "3",
        },
    )  # fmt: skip
    seen = ["bus/*", "class/*"]
    assert list(SysfsFiles(tmp_path).read([*seen, "class/*/x^bus"]).texts) == [
        "class/b/x",
        "class/c/x",
    ]


def test_links_are_followed_and_told(tmp_path: Path) -> None:
    """A link that matches is told by its target, and what lies behind it is read."""
    write(tmp_path, {"dev/real/speed": "5", "class/eth0": "->../dev/real"})
    assert SysfsFiles(tmp_path).read(["class/*", "class/*/speed"]) == FileTree(
        texts={"class/eth0/speed": "5"}, links={"class/eth0": "../dev/real"}
    )


def test_links_stay_in_the_root(tmp_path: Path) -> None:
    """What lies outside the root is not read, however a link leads there."""
    write(tmp_path, {"secret/x": "outside"})
    root = tmp_path / "root"
    write(root, {"up": "->../secret", "abs": f"->{tmp_path}/secret", "file": "->../secret/x"})
    write(root, {"loop": "->loop", "in": "->/kept", "kept/x": "inside"})
    write(root, {f"hop{at}": f"->hop{at + 1}" for at in range(60)} | {"hop60": "->../secret"})
    found = SysfsFiles(root).read(["*", "*/x", "{up,abs,loop,in,hop0,hop20,hop40}/x"])
    assert found.texts == {"kept/x": "inside", "in/x": "inside"}
    assert found.links["file"] == "../secret/x"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO, a folder and an unreadable file are absent."""
    write(tmp_path, {"a/x": "1"})
    os.mkfifo(tmp_path / "fifo")
    assert SysfsFiles(tmp_path).read(["fifo", "a", "a/x/y", "absent/*/x", "a/x"]).texts == {
        "a/x": "1"
    }


def test_long_files_and_bytes(tmp_path: Path) -> None:
    """A file is read up to 64 KiB, and bytes that are no UTF-8 come back as they were."""
    (tmp_path / "long").write_bytes(b"x" * (MOST_BYTES + 1))
    (tmp_path / "page").write_bytes(b"y" * 8192)
    (tmp_path / "bytes").write_bytes(b"\x86\x80\xff")
    texts = SysfsFiles(tmp_path).read(["long", "page", "bytes"]).texts
    assert [len(texts["long"]), len(texts["page"])] == [MOST_BYTES, 8192]
    assert texts["bytes"].encode("utf-8", "surrogateescape") == b"\x86\x80\xff"


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    """Nothing is read of it."""
    assert SysfsFiles(tmp_path / "absent").read(SYSFS_PATTERNS) == FileTree(texts={}, links={})


def test_this_machine() -> None:
    """The node that the tests run on has a CPU that they may use."""
    topology = parse_sysfs(SysfsFiles(Path("/")).read(SYSFS_PATTERNS))
    assert topology.cpu.cpus
    assert topology.cpu.allowed


def test_a_made_up_machine(tmp_path: Path) -> None:
    """What a machine was described as is what is found in its tree, GPUs each beside a NIC."""
    write_machine(tmp_path, dgx_h100())
    topology = parse_sysfs(SysfsFiles(tmp_path).read(SYSFS_PATTERNS))
    assert (topology.cpu.cores, topology.cpu.cpus) == (112, "0-223")
    assert [one.cores for one in topology.cpu.packages] == [56, 56]
    assert len(topology.cpu.l3) == len(topology.numa_nodes) == 2
    assert [one.numa_index for one in topology.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [one.name for one in topology.nics] == [f"mlx5_{at}" for at in range(10)]
    above = {one.address: one.parent for one in topology.pci}
    for gpu, nic in zip(topology.gpus, topology.nics, strict=False):
        assert gpu.pci is not None
        assert nic.pci is not None
        bridges = {above[above[gpu.pci] or gpu.pci], above[above[nic.pci] or nic.pci]}
        assert len(bridges) == 1


def test_live_and_recorded_patterns_agree(tmp_path: Path) -> None:
    """What a live reading leaves out changes nothing."""
    write_machine(tmp_path, forty_nics())
    live = parse_sysfs(SysfsFiles(tmp_path).read(SYSFS_PATTERNS))
    recorded = parse_sysfs(SysfsFiles(tmp_path).read(RECORDED_PATTERNS))
    assert live == recorded
    assert (len(live.gpus), len(live.nics), len(live.numa_nodes)) == (8, 40, 8)


def test_a_nic_is_known_by_the_driver_of_its_pci_device(tmp_path: Path) -> None:
    """A driver that is read once, at the PCI device, says what the NIC and its netdev are."""
    cards = (
        Card(device=0xEFA2, vendor=0x1D0F, driver="efa", name="rdmap0s6", kind="Unspecified"),
        Card(device=0x0042, vendor=0x1AE0, class_code=0x0200, driver="gve"),
    )
    switches = (Switch(bus=0x15, numa_index=0, cards=cards),)
    write_machine(tmp_path, Machine(packages=1, cores=2, numa_nodes=1, switches=switches))
    gve = max((tmp_path / "sys/bus/pci/devices").iterdir()).resolve()
    write(gve / "net/ens6", {"device": f"->../../../{gve.name}", "operstate": "up"})
    write(tmp_path, {"sys/class/net/ens6": f"->/{gve.relative_to(tmp_path)}/net/ens6"})
    tree = SysfsFiles(tmp_path).read(SYSFS_PATTERNS)
    assert not [path for path in tree.links if path.endswith("device/driver")]
    assert [(one.kind, one.driver) for one in parse_sysfs(tree).nics] == [
        (NicKind.EFA, "efa"),
        (NicKind.GVNIC, "gve"),
    ]
