"""On what kind of file system a path lies."""

from __future__ import annotations

import pytest

from hpckit.sampler.host import NETWORK, file_system_of

MOUNTS = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:51 / /scratch rw - lustre 10.0.0.1@o2ib:/fs rw
31 30 0:52 / /scratch/local\040disk rw - xfs /dev/nvme0n1 rw
32 27 0:53 / /home rw - autofs auto.home rw
33 32 0:54 / /home rw - nfs4 server:/home rw
a line cut sh"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp", "ext4"),
        ("/scratch", "lustre"),
        ("/scratch/ana/tmp", "lustre"),
        ("/scratching", "ext4"),
        ("/scratch/local disk/1", "xfs"),
        ("/home/ana", "nfs4"),
    ],
)
def test_nearest_mount_tells(path: str, kind: str) -> None:
    """The mount point that is nearest above counts, and of two on a folder the later."""
    assert file_system_of(MOUNTS, path) == kind


def test_nothing_is_known_without_mounts() -> None:
    """Where /proc told nothing, nothing is said."""
    assert file_system_of(b"", "/tmp") is None


def test_nodes_own_file_systems_are_none_of_a_network() -> None:
    """What a node's own disks and memory have is never taken for another machine's."""
    assert not {"ext4", "xfs", "tmpfs", "btrfs", "overlay", "zfs", "f2fs"} & NETWORK


@pytest.mark.parametrize("kind", ["dvs", "fhgfs", "beegfs", "lustre"])
def test_what_compute_nodes_mount_from_servers_is_of_a_network(kind: str) -> None:
    """A parallel file system and what forwards one are another machine's, by an old name too."""
    mounts = f"30 27 0:51 / /work rw - {kind} server:/fs rw".encode()
    assert file_system_of(mounts, "/work/ana") in NETWORK
