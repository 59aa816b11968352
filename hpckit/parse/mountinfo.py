"""/proc/self/mountinfo: on what kind of file system a path lies."""

from __future__ import annotations

from hpckit.parse.cgroup import unescaped

_MOUNT_POINT = 4
NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "davfs", "dvs", "fhgfs", "fuse.ceph"),
        *("fuse.glusterfs", "fuse.gpfs", "fuse.juicefs", "fuse.sshfs", "glusterfs", "gpfs"),
        *("lustre", "mmfs", "ncpfs", "nfs", "nfs4", "orangefs", "panfs", "pvfs2", "smb3"),
        *("smbfs", "virtiofs", "wekafs"),
    )
)
"""File systems that another machine serves, by the names that they have there.

`dvs` is Cray's Data Virtualization Service, `fhgfs` what BeeGFS was called before 2014.
"""


def file_system_of(mountinfo: bytes, path: str) -> str | None:
    """The type of the file system that is mounted nearest above an absolute path.

    Nothing but the text is looked at, so a file system that hangs is told as any other; what a
    symbolic link leads to is not seen.
    """
    nearest, found = "", None
    for line in mountinfo.decode("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        parts, kind = before.split(), after.split()
        if len(parts) <= _MOUNT_POINT or not kind:
            continue
        point = unescaped(parts[_MOUNT_POINT])
        is_above = f"{path}/".startswith(point.rstrip("/") + "/")
        # What was mounted last on the same folder hides what was there.
        if is_above and len(point) >= len(nearest):
            nearest, found = point, kind[0]
    return found
