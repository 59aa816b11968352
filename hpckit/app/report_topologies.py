"""What a job's nodes look like, from the files that their samplers wrote."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from hpckit.app.accounts import SampleStore
from hpckit.errors import ParseError, StorageFailed
from hpckit.model.account_files import node_of_topology
from hpckit.model.hardware import NodeTopology
from hpckit.parse.snapshot import read_snapshot

if TYPE_CHECKING:
    from hpckit.adapters.account_store import FoundAccounts

_MOST_TOLD: Final = 4


def node_topologies(
    store: SampleStore, found: FoundAccounts, nodes: Collection[str] | None = None
) -> tuple[dict[str, NodeTopology], list[str]]:
    """The topologies by node, of the last incarnation; a sentence for what cannot be read.

    Those of `nodes` alone where these are named. A node without such a file is none of them, and
    nothing is said of it.
    """
    topologies: dict[str, NodeTopology] = {}
    refused = []
    for path in (path for files in found.incarnations for path in files.topologies):
        node = node_of_topology(path.name)
        if nodes is not None and node not in nodes:
            continue
        try:
            topology = read_snapshot(store.topology(path))
        except StorageFailed as error:
            refused.append(error.message)
        except ParseError as error:
            why = error.message.split("\n", 1)[0]
            refused.append(f"{path.name} is no topology of a node: {why}")
        else:
            if node is not None:
                topologies[node] = topology
    told = refused[:_MOST_TOLD]
    if len(refused) > len(told):
        told.append(f"and {len(refused) - len(told)} more topologies could not be read")
    return topologies, told
