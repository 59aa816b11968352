"""What `hpckit tune` says of a virtual machine that hides which NIC is close to which GPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hpckit.cli.tuned import Tuned, tune
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.prepare import JobSource
from hpckit.node.path import PathKind, PathTable
from hpckit.node.topology import Host, NodeTopology
from tests.fakes.machines import matrix_only


def hidden(machine: NodeTopology) -> NodeTopology:
    """The machine as a hypervisor shows it: every GPU and NIC equally far from each other."""
    table = machine.paths
    assert table is not None
    gpus = len(machine.gpus)
    cells = tuple(
        tuple(
            cell if cell == PathKind.SELF or (row < gpus and at < gpus) else PathKind.PHB.value
            for at, cell in enumerate(cells)
        )
        for row, cells in enumerate(table.cells)
    )
    paths = PathTable(devices=table.devices, cells=cells, is_recorded=True)
    return dataclasses.replace(machine, paths=paths, host=Host(is_virtual_machine=True))


def tuned(site: str | None) -> Tuned:
    """What two such machines need at a site."""
    source = JobSource(
        file_text=None,
        file_name="",
        options={},
        option_words=(),
        command=(),
        site_name=site,
        template=None,
        folder=Path("/"),
        topology=hidden(matrix_only()),
    )
    return tune(source, FileResources([packaged_data()]))


def test_a_hidden_tree_is_said_and_nothing_is_made_up() -> None:
    """No file of a topology is known, so none is set; a finding says what is hidden."""
    found = tuned(None)
    assert found.env.settings == ()
    assert "pci-hidden" in {note.rule for note in found.env.notes}


def test_a_provider_s_file_tells_what_is_hidden() -> None:
    """Where the provider ships a topology file for its machine, that is what NCCL is told."""
    values = {one.name: one.value for one in tuned("azure-ndv5").env.settings}
    assert values["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv5/topo.xml"
