"""One step with DeepSpeed: every rank has its own row, and all end with the same weights.

`deepspeed train.py --fail-rank 1` shows what a rank that dies looks like.
"""

import argparse
import sys
import time

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("--fail-rank", type=int)
args = parser.parse_args()
deepspeed.init_distributed()
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
if args.fail_rank == rank:
    sys.exit(f"rank {rank} gives up, as asked")

model = torch.nn.Linear(4, 1, bias=False)
model.weight.data.zero_()
config = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_clipping": 0.0,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
row = torch.full((1, 4), rank + 1.0, device=engine.device)
engine.backward(engine(row).sum())
engine.step()
weight = model.weight.detach().flatten()[:1]
weights = [torch.empty_like(weight) for _ in range(world)]
torch.distributed.all_gather(weights, weight)
same = all(bool(other == weight) for other in weights)
print(f"rank {rank} of {world}: weights {float(weight):.3f}, equal on all: {same}")
# On CPUs a thread of gloo gives its tensors back now; in a Python that ends it would abort.
time.sleep(1)
sys.exit(0 if same else 1)
