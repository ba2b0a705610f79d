"""Training and validation (chapter 9)."""
from concurrent.futures import ThreadPoolExecutor
import itertools, torch, torch.distributed as dist, torch.nn.functional as F, torch.optim.lr_scheduler as schedulers
from tqdm import tqdm

def batches(ids, batch, context, generator):
    """Endless batches of windows: inputs (B, T) and, one symbol later, targets (B, T)."""
    starts, stride, end = torch.empty(0, dtype=torch.int64), max(context, len(ids) // 10**6), len(ids) - context
    while True:
        while len(starts) < batch:  # another pass: cut the text at another place, shuffle
            cuts = torch.arange(torch.randint(min(stride, end), (), generator=generator).item(), end, stride)
            starts = torch.cat([starts, cuts[torch.randperm(len(cuts), generator=generator)]])
        windows = ids.unfold(0, context + 1, 1)[starts[:batch]].long()  # (B, T + 1)
        yield windows[:, :-1], windows[:, 1:]
        starts = starts[batch:]

@torch.no_grad()
def evaluate(model, ids, batch=32):
    """Mean negative log-likelihood of ids[1:], nats per symbol, in non-overlapping windows."""
    if len(ids) < 2:
        raise ValueError(f"a text of {len(ids)} symbols is too short to validate on")
    T, total = model.config.context, 0.0
    for i in tqdm(range(0, len(ids) - 1, batch * T), "validating", disable=len(ids) < 10**6):
        chunk = ids[i : i + batch * T + 1].long().to(model.head.weight.device)
        rows = F.pad(chunk[:-1], (0, -(len(chunk) - 1) % T)).view(-1, T)  # windows; the last may be short
        total += F.cross_entropy(model(rows).flatten(0, 1)[: len(chunk) - 1], chunk[1:], reduction="sum").item()
    return total / (len(ids) - 1)

class Muon(torch.optim.SGD):
    """Momentum, its singular values brought close to 1. Source: Jordan and others, "Muon", 2024."""
    @torch.no_grad()
    def step(self):
        matrices, lr, momentum, decay = (self.param_groups[0][x] for x in ("params", "lr", "momentum", "weight_decay"))
        gradient = torch.stack([p.grad if len(p) <= p.shape[1] else p.grad.T for p in matrices])
        mean = self.state[matrices[0]].setdefault("mean", gradient * 0).lerp_(gradient, 1 - momentum)
        x = F.normalize(gradient.lerp(mean, momentum), dim=(1, 2))  # no singular value above 1
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (2.0315 * a @ a - 4.7750 * a) @ x
        for p, s in zip(matrices, x):
            p.mul_(1 - lr * decay).sub_(s if s.shape == p.shape else s.T, alpha=lr * max(1, len(p) / p.shape[1])**0.5)

def make_optimizers(model):
    """A Muon for each size of matrix inside the blocks, AdamW for everything else, slower for LayerNorms."""
    tables = dict(params=[model.embedding.weight, model.head.weight], weight_decay=0.1)
    vectors = dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0, lr=0.003)
    matrices = sorted((p for p in model.blocks.parameters() if p.dim() == 2), key=torch.numel)
    muons = [Muon([*p], lr=0.02, momentum=0.9, weight_decay=0.01) for _, p in itertools.groupby(matrices, torch.numel)]
    return [*muons, torch.optim.AdamW([tables, vectors], lr=0.01, betas=(0.9, 0.99), fused=True)]

def train(model, ids, steps=10_000, batch=8, seed=0, on_step=lambda step, loss: None):
    """Train model on ids (N,), in place; returns each step's loss, nats per symbol. Raises ValueError."""
    context, device, losses = model.config.context, model.head.weight.device, []
    if steps < 1 or len(ids) <= context:
        raise ValueError(f"{steps} steps on {len(ids)} symbols are too few: 1 and {context + 1} are needed")
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    network = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    data, optimizers = batches(ids, batch, context, torch.Generator().manual_seed(seed)), make_optimizers(model)
    rates = [schedulers.LambdaLR(o, lambda i: min(50 * i + 50, steps - i) / steps) for o in optimizers]
    halves = min(2, torch.get_num_threads()) if device.type == "cpu" and world == 1 else 1
    torch.empty(7 * 2**20)  # 29 MB, freed at once: now malloc keeps what one step frees, for the next
    def learn(inputs, targets):  # adds these windows' share to each gradient, returns their share of the loss
        loss = F.cross_entropy(network(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / batch / context
        (loss * world).backward()
        return loss.detach()
    with ThreadPoolExecutor(2, "half", torch.set_num_threads, [torch.get_num_threads() // halves]) as pool:
        for step, pair in zip(tqdm(range(steps), "training", disable=rank > 0), data):
            loss = sum(pool.map(learn, *(part[rank::world].to(device).chunk(halves) for part in pair)))
            tuple(pool.map(lambda o, rate: (o.step(), rate.step(), o.zero_grad()), optimizers, rates))
            world > 1 and dist.all_reduce(loss)
            losses.append(loss.item())
            on_step(step, losses[-1])
    return losses
