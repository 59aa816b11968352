"""What lies in the folder of a job about the places of its ranks, `place/restart-N`."""

from __future__ import annotations

HOSTS_FILE = "hosts"
"""One node a line in the order of ranks, as many times as it has tasks: SLURM_HOSTFILE."""
NO_ORDER_FILE = "no-order"
"""Why there is no such file though one was wanted, in words."""
WAITING_FILE = "waiting"
"""There until a rank begins, which removes it: that works also where nothing can be written."""
BEGAN_FILE = "began"
"""There once a rank began: then srun has taken the order of nodes."""
LINES_PREFIX = "proof."
"""The beginning of the names of the files of lines, one file a node."""
PROOF_FILE = "proof.json"
