"""The picture of a node: everything is in it, nothing lies over something else, all text fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring

from hpckit.core.findings import Finding, Severity
from hpckit.node.pci import CLASS_3D
from hpckit.node.picture.picture import node_svg
from hpckit.node.topology import Host, NicRole, NodeTopology, Source
from hpckit.node.words import role_words
from hpckit.spec.nic_kind import NicKind
from tests.fakes.machine_parts import with_dead_link, with_nic_down
from tests.fakes.machines import (
    dgx_1v,
    dgx_h100,
    four_gpu_box,
    many_functions,
    sixteen_v100,
)
from tests.fakes.odd_machines import MACHINES, accelerators, partitions
from tests.svg_boxes import SVG, Box, boxes, extent, faint_texts


def idle_and_narrow() -> NodeTopology:
    """GPUs on wires as short as can be, whose links say all that a link can say."""
    node = four_gpu_box()
    pci = tuple(
        replace(one, effective=replace(one.effective, speed_gt_per_s=2.5, width=8, max_width=16))
        if one.effective is not None and one.class_code == CLASS_3D
        else one
        for one in node.pci
    )
    return replace(node, pci=pci, nics=())


def long_names() -> NodeTopology:
    """Everything has a name that no box can hold."""
    node = dgx_h100()
    gpus = tuple(replace(gpu, name=f"GPU {gpu.index} WWWWWWWWWWWWWWWW") for gpu in node.gpus)
    nics = tuple(replace(nic, name=f"mlx5_{nic.index}_" + "m" * 40) for nic in node.nics)
    return replace(node, gpus=gpus, nics=nics, host=Host(name="W" * 300))


def _root(topology: NodeTopology, *findings: Finding) -> Element:
    root: Element = fromstring(node_svg(topology, findings))
    return root


def _all_text(root: Element) -> str:
    return " ".join(text.text or "" for text in root.iter(f"{SVG}text"))


every_machine = pytest.mark.parametrize(
    "machine", (*MACHINES, idle_and_narrow, long_names), ids=lambda one: one.__name__
)


@every_machine
def test_no_two_boxes_overlap(machine: Callable[[], NodeTopology]) -> None:
    """Boxes have no area in common, at 16 GPUs and 40 NICs neither."""
    found = boxes(_root(machine()))
    assert [pair for pair in combinations(found, 2) if pair[0].overlaps(pair[1])] == []


@every_machine
def test_boxes_are_on_the_page(machine: Callable[[], NodeTopology]) -> None:
    """Devices lie within the panel of a NUMA node, and everything within the page."""
    root = _root(machine())
    page = Box("page", 0, 0, float(root.get("width", "0")), float(root.get("height", "0")), ())
    panels = boxes(root, "panel")
    assert all(page.holds(box) for box in (*boxes(root), *panels))
    for box in boxes(root, "cpu", "switch", "gpu", "nic", "accelerator"):
        assert sum(panel.holds(box) for panel in panels) == 1


@every_machine
def test_text_fits_its_box(machine: Callable[[], NodeTopology]) -> None:
    """No text is wider than its box, and none is above or below it."""
    for box in boxes(_root(machine())):
        for text in box.texts:
            start, end = extent(text)
            assert box.x <= start, text.text
            assert end <= box.right, text.text
            size, y = float(text.get("font-size", "0")), float(text.get("y", "nan"))
            assert box.y <= y - size * 0.75 <= y <= box.bottom, text.text


@every_machine
def test_labels_lie_beside_all_else(machine: Callable[[], NodeTopology]) -> None:
    """No label of a wire lies over a box or another label, or ends outside the page."""
    root = _root(machine())
    areas = []
    for label in root.iter(f"{SVG}text"):
        if label.get("class") == "label":
            start, end = extent(label)
            y, size = float(label.get("y", "nan")), float(label.get("font-size", "0"))
            areas.append(Box(label.text or "", start, y - size * 0.7, end, y, ()))
            assert 0 <= start <= end <= float(root.get("width", "0")), label.text
    assert [(a, b) for a in areas for b in boxes(root) if b.overlaps(a)] == []
    assert [pair for pair in combinations(areas, 2) if pair[0].overlaps(pair[1])] == []


@every_machine
def test_text_is_legible_on_a_slide(machine: Callable[[], NodeTopology]) -> None:
    """No text is below 11 px where the picture is shown 1280 px wide."""
    root = _root(machine())
    scale = min(1.0, 1280 / float(root.get("width", "nan")))
    assert [
        text.text
        for text in root.iter(f"{SVG}text")
        if float(text.get("font-size", "0")) * scale < 11
    ] == []


@every_machine
def test_text_stands_out_in_light_and_dark(machine: Callable[[], NodeTopology]) -> None:
    """Text has a contrast of 4.5 or more to its box, or to the page, on light and dark ground."""
    assert faint_texts(_root(machine())) == []


@every_machine
def test_picture_is_the_same_each_time(machine: Callable[[], NodeTopology]) -> None:
    """The same node gives the same bytes."""
    assert node_svg(machine()) == node_svg(machine())


@every_machine
def test_synthetic_says_so(machine: Callable[[], NodeTopology]) -> None:
    """What is no real machine is labelled in the picture, and a real one is not."""
    made_up = machine()
    real = replace(made_up, source=Source(format="fake"))
    assert [box.words() for box in boxes(_root(made_up), "synthetic")] == ["synthetic"]
    assert boxes(_root(real), "synthetic") == []


def test_all_to_all_is_a_bar() -> None:
    """120 pairs through switches are one bar and a wire a GPU, with what each can send."""
    root = _root(sixteen_v100())
    (bar,) = boxes(root, "bar")
    assert bar.words() == "NVSwitch · NV6 · 150 GB/s per GPU each way"


def test_mesh_is_arcs() -> None:
    """A cube mesh is an arc a pair, in the widths and colours of one and two links."""
    root = _root(dgx_1v())
    curves = [path for path in root.iter(f"{SVG}path") if " C" in path.get("d", "")]
    assert len(curves) == 16
    assert len({(path.get("stroke"), path.get("stroke-width")) for path in curves}) == 2
    assert "2 × NVLink, 50 GB/s" in _all_text(root)


def test_dead_link_shows_at_its_gpu() -> None:
    """The wire of the GPU with fewer links has its own count."""
    text = _all_text(_root(with_dead_link(dgx_h100(), 5)))
    assert (text.count("NV17"), text.count("NV18")) == (1, 1)


def test_wires_are_as_wide_as_what_they_carry() -> None:
    """PCIe gen5 x16 is drawn wider than gen3 x16, NVLink wider than both."""

    def widest(topology: NodeTopology) -> float:
        lines = (path for path in _root(topology).iter(f"{SVG}path") if path.get("fill"))
        return max(float(line.get("stroke-width", "0")) for line in lines)

    plain = replace(sixteen_v100(), gpu_links=())
    fast = replace(dgx_h100(), gpu_links=())
    assert widest(plain) < widest(fast) < widest(dgx_h100())


def test_port_down_is_told_without_colour() -> None:
    """A NIC that is down says so, has a dashed edge and a cross."""
    root = _root(with_nic_down(dgx_h100(), "mlx5_3"))
    (box,) = (box for box in boxes(root, "nic") if "mlx5_3" in box.words())
    assert "DOWN" in box.words()
    dashed = [rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke-dasharray") == "4 3"]
    assert len(dashed) == 2  # the box, and the legend's sample


def test_findings_are_numbered_at_their_subject() -> None:
    """A finding's number stands at its subject's corner and before its words below."""
    finding = Finding(
        rule="nvlinks-differ",
        severity=Severity.WARNING,
        subject="GPU5",
        because="17 of 18 NVLinks are active",
        remedy="tell your operator",
    )
    root = _root(dgx_h100(), finding)
    (box,) = (box for box in boxes(root, "gpu") if "GPU5" in box.words())
    discs = [(disc.get("cx"), disc.get("cy")) for disc in root.iter(f"{SVG}circle")]
    assert (f"{box.right - 2:g}", f"{box.y + 1:g}") in discs
    assert len(discs) == 2
    assert "warning: GPU5: 17 of 18 NVLinks are active" in _all_text(root)
    assert "tell your operator" in _all_text(root)


def test_virtual_functions_share_a_box() -> None:
    """40 virtual functions of a card are one box that says how many they are."""
    found = boxes(_root(many_functions()), "nic")
    assert [box.words() for box in found][1] == "mlx5_2 … mlx5_41 40 VFs · 100 Gb/s"


def test_a_bar_says_what_is_between_boxes() -> None:
    """The bandwidth between partitions of one GPU is not that between GPUs."""
    node = partitions()
    links = tuple(
        replace(link, bandwidth_bytes_per_s=819.2e9) if link.a // 8 == link.b // 8 else link
        for link in node.gpu_links
    )
    text = _all_text(_root(replace(node, gpu_links=links)))
    assert "XGMI · all to all, no switch" in text
    assert "819" not in text.partition("XGMI · each")[2].partition("\n")[0]


def test_accelerators_are_boxes() -> None:
    """Devices that are no GPUs have boxes with their names; a finding finds them by it."""
    finding = Finding(
        rule="odd", severity=Severity.NOTE, subject="HL-225", because="odd", remedy="look"
    )
    root = _root(accelerators(), finding)
    assert [box.words() for box in boxes(root, "accelerator")][:2] == [
        "HL-225 11:00",
        "HL-225 12:00",
    ]
    assert len(list(root.iter(f"{SVG}circle"))) == 9


def test_cards_of_a_stack_that_differ_say_so() -> None:
    """The NIC of a stack that has another link than most tells it in its box."""
    node = four_gpu_box()
    pci = tuple(
        replace(one, effective=replace(one.effective, width=4))
        if one.address == "0000:a1:00.1" and one.effective is not None
        else one
        for one in node.pci
    )
    words = [box.words() for box in boxes(_root(replace(node, pci=pci)), "nic")]
    assert "gen4" not in words[0]
    assert "gen4 x4" in words[1]


def test_what_most_wires_are_is_said_once() -> None:
    """PCIe's usual link is named in the legend alone, that of NVLink on the switch alone."""
    text = _all_text(_root(dgx_h100()))
    assert text.count("gen5 x16") == 1
    assert "PCIe gen5 x16, 63 GB/s" in text
    assert text.count("NV18") == 1


def test_an_odd_wire_has_a_label() -> None:
    """The one GPU with half its lanes is labelled, and the legend tells GPUs' links from NICs'."""
    root = _root(four_gpu_box())
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "label"]
    assert [label for label in labels if label in ("gen4 x8", "of x16")] == ["gen4 x8", "of x16"]
    assert {"PCIe gen4 x16, 32 GB/s: GPUs", "PCIe gen4 x8, 16 GB/s: NICs"} <= set(labels)


def test_mig_and_models_are_in_the_box() -> None:
    """A GPU that is cut up says so, and GPUs of several kinds say which they are."""
    node = four_gpu_box()
    mixed = (replace(node.gpus[0], name="Tesla T4", is_mig=True, mig_devices=7), *node.gpus[1:])
    words = [box.words() for box in boxes(_root(replace(node, gpus=mixed)), "gpu")]
    assert words[0] == "GPU0 MIG 7 Tesla T4"
    assert words[1] == "GPU1 L40S 41:00"


def test_picture_is_told_to_who_cannot_see_it() -> None:
    """It has a title and a description in words."""
    root = _root(dgx_h100())
    assert root.findtext(f"{SVG}title") == "Topology of node012"
    assert "8 × H100 80GB HBM3" in (root.findtext(f"{SVG}desc") or "")
    assert root.get("role") == "img"


def test_markup_in_a_name_is_text() -> None:
    """A host that is called like an element is drawn as its name."""
    topology = replace(dgx_h100(), host=Host(name='</text><script href="x">'))
    root = _root(topology)
    assert '</text><script href="x">' in _all_text(root)
    assert not list(root.iter(f"{SVG}script"))


def test_nothing_known_is_still_a_picture() -> None:
    """A node of which nothing is known says that."""
    root = _root(NodeTopology(source=Source(format="fake")))
    assert "contents unknown" in _all_text(root)


def test_what_a_nic_is_for_is_not_cut() -> None:
    """A role that has no room below the name stands beside it, or both fit."""
    for kind in NicKind:
        for role in (NicRole.STORAGE, NicRole.OTHER):
            nics = tuple(replace(nic, kind=kind, role=role) for nic in dgx_h100().nics)
            text = _all_text(_root(replace(dgx_h100(), nics=nics)))
            assert "…" not in text
            assert role_words(role) in text
