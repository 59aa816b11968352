"""One data-parallel step with Accelerate: every rank has its own row, all end the same.

`train.py --fail-rank 1` shows what a rank that dies looks like.
"""

import sys
import time

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=not torch.cuda.is_available())
rank, world = accelerator.process_index, accelerator.num_processes
if sys.argv[1:] == ["--fail-rank", str(rank)]:
    sys.exit(f"rank {rank} gives up, as asked")

model = torch.nn.Linear(4, 1, bias=False)
model.weight.data.zero_()
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
row = torch.full((1, 4), rank + 1.0, device=accelerator.device)
accelerator.backward(model(row).sum())
optimizer.step()
weight = next(model.parameters()).detach().flatten()[:1]
weights = accelerator.gather(weight)
same = bool((weights == weights[0]).all()) and len(weights) == world
print(f"rank {rank} of {world}: weights {float(weight):.3f}, equal on all: {same}")
# On CPUs a thread of gloo gives its tensors back now; in a Python that ends it would abort.
time.sleep(1)
accelerator.end_training()
sys.exit(0 if same else 1)
