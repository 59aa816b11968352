"""One data-parallel step with Horovod: every rank has its own row, all end the same.

`train.py --fail-rank 1` shows what a rank that dies looks like.
"""

import sys

import horovod.torch as hvd
import torch

hvd.init()
rank, world = hvd.rank(), hvd.size()
if sys.argv[1:] == ["--fail-rank", str(rank)]:
    sys.exit(f"rank {rank} gives up, as asked")

model = torch.nn.Linear(4, 1, bias=False)
model.weight.data.fill_(rank)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
plain = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
model(torch.full((1, 4), rank + 1.0)).sum().backward()
optimizer.step()
weight = model.weight.detach().flatten()[:1]
weights = hvd.allgather(weight)
same = bool((weights == weights[0]).all()) and len(weights) == world
print(f"rank {rank} of {world}: weights {float(weight):.3f}, equal on all: {same}")
hvd.shutdown()
sys.exit(0 if same else 1)
