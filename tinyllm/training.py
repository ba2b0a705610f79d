"""Training and validation (chapter 9)."""
import math
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tqdm import tqdm

def sample_batch(ids, batch, context, generator):
    """Random windows of a text: inputs (B, T) and, one symbol later, targets (B, T)."""
    starts = torch.randint(len(ids) - context, (batch, 1), generator=generator)
    windows = ids[starts + torch.arange(context + 1)].long()  # (B, T + 1)
    return windows[:, :-1], windows[:, 1:]

@torch.no_grad()
def evaluate(model, ids, batch=64):
    """Mean negative log-likelihood of ids[1:], nats per symbol, in non-overlapping windows."""
    if len(ids) < 2:
        raise ValueError(f"a text of {len(ids)} symbols is too short to validate on")
    T, total = model.config.context, 0.0
    for i in tqdm(range(0, len(ids) - 1, batch * T), "validating", disable=len(ids) < 10**6):
        chunk = ids[i : i + batch * T + 1].long().to(model.head.weight.device)
        pad = -(len(chunk) - 1) % T  # the last window may be short: targets of -100 do not count
        logits = model(F.pad(chunk[:-1], (0, pad)).view(-1, T)).flatten(0, 1)
        total += F.cross_entropy(logits, F.pad(chunk[1:], (0, pad), value=-100), reduction="sum").item()
    return total / (len(ids) - 1)

def make_optimizers(model):
    """Muon for the matrices inside the blocks, AdamW for everything else."""
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() == 1] + [model.embedding.weight, model.head.weight]
    return [torch.optim.Muon(matrices, lr=0.02, weight_decay=0.0),
            torch.optim.AdamW(others, lr=0.01, betas=(0.9, 0.99), weight_decay=0.0, fused=True)]

def schedule(progress):
    """Factor on the learning rates: up in the first 2 % of the run, then down along a cosine."""
    return min(1, progress / 0.02) * (1 + math.cos(math.pi * progress)) / 2

def train(model, ids, steps=5000, batch=32, seed=0, on_step=lambda step, loss: None):
    """Train model on ids (N,), in place; returns the loss of each step, nats per symbol. Raises
    ValueError for too short a text. Under torch.distributed, processes share every batch."""
    context, device, losses = model.config.context, model.head.weight.device, []
    if steps < 1 or len(ids) <= context:
        raise ValueError(f"{steps} steps on {len(ids)} symbols are too few: 1 and {context + 1} are needed")
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    network = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    generator, optimizers = torch.Generator().manual_seed(seed), make_optimizers(model)
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    for step in tqdm(range(steps), "training", disable=rank > 0):
        inputs, targets = sample_batch(ids, batch, context, generator)
        logits = network(inputs[rank::world].to(device))
        loss = F.cross_entropy(logits.flatten(0, 1), targets[rank::world].flatten().to(device))
        loss.backward()
        for optimizer, peak in zip(optimizers, peaks):
            optimizer.param_groups[0]["lr"] = peak * schedule((step + 1) / steps)
            optimizer.step()
            optimizer.zero_grad()
        world > 1 and dist.all_reduce(loss.detach().div_(world))  # the mean over the whole batch
        losses.append(loss.item())
        on_step(step, losses[-1])
    return losses
