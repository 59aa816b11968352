"""One data-parallel step that a rank does not survive at first: its launcher starts all again.

`train.py --fail-rank 1` shows a rank that dies each time.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if sys.argv[1:] == ["--fail-rank", str(rank)]:
    sys.exit(f"rank {rank} gives up, as asked")

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
if attempt == 0 and rank == world - 1:
    sys.exit(f"rank {rank} fails once")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(4, 1, bias=False).to(device)
model.weight.data.zero_()
wrapped = DistributedDataParallel(model)
wrapped(torch.full((1, 4), rank + 1.0, device=device)).sum().backward()
torch.optim.SGD(wrapped.parameters(), lr=0.1).step()
weight = model.weight.detach().flatten()[:1].contiguous()
weights = [torch.empty_like(weight) for _ in range(world)]
dist.all_gather(weights, weight)
same = all(bool(other == weight) for other in weights)
print(f"rank {rank} of {world}: weights {float(weight):.3f}, equal on all: {same}", flush=True)
print(f"rank {rank} was started {attempt + 1} times", flush=True)
dist.destroy_process_group()
sys.exit(0 if same else 1)
