"""One data-parallel step with JAX: every rank has its own row, and all end with the same weights.

`python3 train.py --fail-rank 1` shows what a rank that dies looks like.
"""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if sys.argv[1:] == ["--fail-rank", str(rank)]:
    sys.exit(f"rank {rank} gives up, as asked")
# Elsewhere than in Slurm, JAX wants to be told. A rank that fails waits for the others before it
# ends, by default for 300 s.
told = {} if "SLURM_JOB_ID" in os.environ else {"num_processes": world, "process_id": rank}
jax.distributed.initialize(shutdown_timeout_seconds=10, **told)

mesh = Mesh(jax.devices(), ("data",))
rows = NamedSharding(mesh, PartitionSpec("data"))
own = jnp.full((jax.local_device_count(), 4), rank + 1.0)
x = multihost_utils.host_local_array_to_global_array(own, mesh, PartitionSpec("data"))


@jax.jit
def step(w: jax.Array, x: jax.Array) -> jax.Array:
    """Return the weights after one step down the mean of all rows."""
    return w - 0.1 * jax.grad(lambda w: (x @ w).mean())(w)


w = step(jnp.zeros(4), x)
own_w = np.asarray(w.addressable_data(0))
weights = multihost_utils.process_allgather(own_w).reshape(world, -1)
same = bool((weights == weights[0]).all())
print(f"rank {rank} of {jax.process_count()}: weights {own_w[0]:.3f}, equal on all: {same}")
sys.exit(0 if same and jax.process_count() == world else 1)
