"""TF_CONFIG: where each rank listens, which TensorFlow's workers are to know beforehand.

Source: tf.distribute.cluster_resolver.TFConfigClusterResolver of TensorFlow 2.21.
"""

from __future__ import annotations

import json
import os
import time

from hpckit.core.files_in_job import make_folders, write_whole
from hpckit.core.talk import reason, say
from hpckit.injob.port import claim_port
from hpckit.spec.folder_in_job import of_start, start_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from hpckit.core.identity import Identity


_WAIT_S = 120.0
_FIRST_POLL_S, _LAST_POLL_S, _SLOWER = 0.02, 1.0, 1.5


class Workers:
    """The ranks as workers of one cluster; `held` keeps this rank's port while it is open."""

    def __init__(self, env: dict[str, str], identity: Identity, log: int | None) -> None:
        """Find a port, tell it, and wait until all have. Raises SystemExit where one has not."""
        self.held: socket.socket | None = None
        rank, size = identity.rank, identity.world_size
        if rank is None or size is None:
            say("no TF_CONFIG: this rank has no rank number", log)
            raise SystemExit(1)
        try:
            addresses = self._gathered(env, identity, rank, size)
        except OSError as error:
            say(f"no TF_CONFIG: {error.filename or 'job folder'}: {reason(error)}", log)
            raise SystemExit(1) from None
        if addresses is None:
            say(f"no TF_CONFIG: not all {size} ranks sent their address within {_WAIT_S:g} s", log)
            raise SystemExit(1)
        self.config = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": rank},
        }

    def exports(self) -> dict[str, str]:
        """Return TF_CONFIG."""
        return {"TF_CONFIG": json.dumps(self.config, separators=(",", ":"))}

    def _gathered(
        self, env: dict[str, str], identity: Identity, rank: int, size: int
    ) -> list[str] | None:
        folder = f"{of_start(env, 'place', 'restart')}/workers.step-{start_of(env)[0]}"
        make_folders(folder)
        write_whole(f"{folder}/{rank}", f"{self._address(env, identity)}\n".encode())
        everyone = f"{folder}/all"
        if rank == 0:
            ranks = set(map(str, range(size)))
            if not _waited(lambda: ranks <= set(os.listdir(folder))):
                return None
            write_whole(everyone, b"".join(_read(f"{folder}/{one}") for one in range(size)))
        # What another client of a network file system made is seen once the folder is asked anew.
        if not _waited(lambda: "all" in os.listdir(folder)):
            return None
        return _read(everyone).decode().split()

    def _address(self, env: dict[str, str], identity: Identity) -> str:
        host = env.get("SLURMD_NODENAME") or os.uname().nodename
        at, ranks = identity.local_rank or 0, identity.local_world_size or 1
        claimed = claim_port(int(env.get("MASTER_PORT") or 0), at, ranks)
        if claimed is None:
            say(f"no TF_CONFIG: no free port on {host}")
            raise SystemExit(1)
        number, self.held = claimed
        return f"{host}:{number}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _waited(is_there: Callable[[], bool]) -> bool:
    until, poll_s = time.monotonic() + _WAIT_S, _FIRST_POLL_S
    while not is_there():
        if time.monotonic() > until:
            return False
        time.sleep(poll_s)
        poll_s = min(_SLOWER * poll_s, _LAST_POLL_S)
    return True
