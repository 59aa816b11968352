"""One data-parallel step with TensorFlow: every worker has its own row, all end the same.

`python3 train.py --fail-rank 1` shows what a rank that dies looks like.
"""

import math
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
if sys.argv[1:] == ["--fail-rank", str(rank)]:
    sys.exit(f"rank {rank} gives up, as asked")

with strategy.scope():
    w = tf.Variable(tf.zeros([4]))


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    """Return the weights after one step down the mean of all rows."""

    def of_worker(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
        gradient = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, w))
        w.assign_sub(0.1 * gradient)
        return w.read_value()

    return strategy.run(of_worker, args=(x,))


weights = strategy.experimental_local_results(step(tf.fill([4], rank + 1.0)))[0]
mean = (world + 1) / 2
same = math.isclose(float(weights[0]), -0.1 * mean, rel_tol=1e-5)
print(
    f"rank {rank} of {strategy.num_replicas_in_sync}: weights {float(weights[0]):.3f}, "
    f"equal on all: {same}",
    flush=True,
)
sys.exit(0 if same and strategy.num_replicas_in_sync == world else 1)
