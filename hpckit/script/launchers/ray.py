"""`ray`: a Ray cluster of the job's nodes, and the program as its driver.

Source: `ray start --help` of Ray 2.60; what each node does is hpckit/injob/ray.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.core.errors import PlanError
from hpckit.script.launchers.launcher import Launcher

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


class Ray(Launcher):
    """srun starts one Ray a node; the program runs on the first, and everything ends with it."""

    kind = "ray"
    summary = "one Ray per node; the program runs as the driver on the first node"
    local_identity = "env"
    rank_options = ("--ray",)
    needs_runner = True

    def check(self, spec: JobSpec) -> None:
        """Raise PlanError for several ranks a node: what runs beside each other is Ray's affair."""
        if spec.ntasks_per_node != 1:
            raise PlanError(
                "Ray runs once per node and starts the processes itself",
                have=f"resources.ntasks_per_node = {spec.ntasks_per_node}",
                need="1",
                hint="remove resources.ntasks_per_node",
            )

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the one Ray of this machine."""
        return spec.ntasks
