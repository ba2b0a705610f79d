"""Training and validation (chapter 9)."""
from typing import Callable
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tqdm import tqdm
from tinyllm.model import TinyLLM, require

def batches(ids, batch, context, generator):
    """Random windows of ids (N,), without end: inputs (B, T), and targets one symbol later."""
    while True:
        starts = torch.randint(len(ids) - context, (batch,), generator=generator)
        windows = torch.stack([ids[i : i + context + 1] for i in starts]).long()    # (B, T + 1)
        yield windows[:, :-1], windows[:, 1:]

@torch.no_grad()
def evaluate(model: TinyLLM, ids: torch.Tensor) -> float:
    """Mean negative log-likelihood of ids[1:] in non-overlapping windows, nats per symbol."""
    require(len(ids) >= 2, f"a text of {len(ids)} symbols is too short to validate on")
    context, total = model.config.context, 0.0
    for i in tqdm(range(0, len(ids) - 1, context), "validating", disable=len(ids) < 10**6):
        window = ids[i : i + context + 1].long().to(model.head.weight.device)
        logits = model(window[None, :-1])[0]                  # (T, vocab_size)
        total += F.cross_entropy(logits, window[1:], reduction="sum").item()
    return total / (len(ids) - 1)

def orthogonalize(x: torch.Tensor) -> torch.Tensor:
    """Singular values of each matrix in x (N, rows, columns) brought close to 1."""
    x = F.normalize(x, dim=(1, 2))                           # none above 1
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (2.0315 * a @ a - 4.7750 * a) @ x
    return x

class Muon(torch.optim.SGD):
    """Steps along the mean gradient, orthogonalized; the matrices of a group have one shape.
    Source: Jordan and others, "Muon", 2024."""
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            matrices = group["params"]
            found = [torch.zeros_like(p) if p.grad is None else p.grad for p in matrices]
            gradient = torch.stack(found)                         # (N, rows, columns)
            mean = self.state[matrices[0]].setdefault("mean", torch.zeros_like(gradient))
            mean.lerp_(gradient, 1 - group["momentum"])
            update = orthogonalize(gradient.lerp(mean, group["momentum"]))
            for p, direction in zip(matrices, update):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5 * direction)

def make_optimizers(model: TinyLLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for the rest; what is frozen is left alone."""
    matrices = [p for p in model.blocks.parameters() if p.requires_grad and p.dim() == 2]
    rest = [p for p in model.parameters() if p.requires_grad and p not in set(matrices)]
    shapes = dict.fromkeys(p.shape for p in matrices)
    groups = [dict(params=[p for p in matrices if p.shape == shape]) for shape in shapes]
    adam = torch.optim.AdamW([dict(params=rest)], lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    return [Muon(groups, lr=0.02, momentum=0.9, weight_decay=0.01), adam] if groups else [adam]

def train(model: TinyLLM, ids: torch.Tensor, steps: int = 10_000, batch: int = 8, seed: int = 0,
          on_step: Callable[[int, float], None] | None = None) -> list[float]:
    """Train model on ids (N,), in place; returns the loss of each step, nats per symbol, and
    calls on_step(step, loss). Raises ValueError for what cannot be trained."""
    context, weight = model.config.context, model.head.weight
    require(torch.is_tensor(ids) and ids.dim() == 1, "ids must be one tensor (N,)")
    require(len(ids) > context, f"{len(ids)} symbols to train on are too few: {context + 1} "
            "are needed, and a tenth of a text is kept to validate on")
    require(steps >= 1, f"steps must be 1 or more, not {steps}")
    require(weight.dtype.itemsize >= 4, f"{weight.dtype} is too coarse to train: model.float()")
    rank = dist.get_rank() if dist.is_initialized() else 0
    world = dist.get_world_size() if dist.is_initialized() else 1
    require(batch >= world, f"a batch of {batch} windows is too small for {world} processes")
    network = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    data = batches(ids, batch, context, torch.Generator().manual_seed(seed))
    optimizers = make_optimizers(model)
    rate = lambda step: min(50 * step + 50, steps - step) / steps    # up for 2 %, then down
    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, rate) for optimizer in optimizers]
    losses = []
    for step in tqdm(range(steps), "training", disable=rank > 0):
        inputs, targets = (part[rank::world].to(weight.device) for part in next(data))  # (B, T)
        logits = network(inputs)                              # (B, T, vocab_size)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        if world > 1:                                         # shares may be unequal, and DDP
            loss = loss * len(inputs) * world / batch         # takes the plain mean of them
            dist.all_reduce(loss.detach())                    # their sum, to be reported
        model.zero_grad()
        loss.backward()
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
        losses.append(loss.item() / world)
        if on_step:
            on_step(step, losses[-1])
    return losses
