"""Text out of a model, one step at a time (chapter 10)."""
import codecs, collections, contextlib, math, torch
from tinyllm.text import encode

def distribution(logits, temperature=1.0, top_k=None):
    """Logits (V,) -> probabilities (V,) of the top_k largest; at temperature 0, of the largest alone."""
    if not 0 <= temperature < math.inf or top_k is not None and top_k < 1:
        raise ValueError(f"temperature must be 0 or more and top_k 1 or more, not {temperature}, {top_k}")
    kept, ids = logits.topk(1 if temperature == 0 else min(top_k or len(logits), len(logits)))
    kept = (kept.double() - kept[0]) / (temperature or 1)  # the largest becomes 0: no overflow
    return torch.zeros_like(logits).scatter(0, ids, kept.softmax(0).to(logits.dtype))

@torch.no_grad()
def next_logits(model, ids, past=None):
    """Logits (V,) for the symbol after ids (T,), of which the last `context` are read. past, a dict, is the KV
    cache: if ids is the text of the last call with this dict and one symbol more, only that one is computed."""
    if not len(ids):
        raise ValueError("the prompt is empty: give at least one character")
    def keep(point, _, new):  # keys or values (1, H, T, D)
        past[point] = torch.cat([past[point], new], dim=2) if last else new
        return past[point]
    with contextlib.ExitStack() as hooks:
        if past is not None and len(ids) <= model.config.context and not any(m._forward_hooks for m in model.modules()):
            last, past["ids"] = torch.equal(past.get("ids", ids), ids[:-1]), ids
            hooks.enter_context(model.positions.register_forward_hook(lambda point, _, x: x[:, -last:]))
            for point in [p for block in model.blocks for p in (block.attention.k, block.attention.v)]:
                hooks.enter_context(point.register_forward_hook(keep))
        return model(ids[None, -model.config.context :].to(model.head.weight.device))[0, -1].cpu()

Step = collections.namedtuple("Step", "id text probabilities")  # text is "" inside a character of several bytes
def generate(model, prompt, tokens=50, temperature=0.8, top_k=None, seed=0):
    """Continue prompt, one Step at a time: "".join(step.text for step in generate(...))."""
    if tokens < 0:
        raise ValueError(f"tokens must be 0 or more, not {tokens}")
    ids, past, utf8 = encode(prompt), {}, codecs.getincrementaldecoder("utf-8")("replace")
    generator = torch.Generator().manual_seed(seed)
    for left in reversed(range(tokens)):
        probabilities = distribution(next_logits(model, ids, past), temperature, top_k)
        drawn = torch.multinomial(probabilities, 1, generator=generator)
        ids = torch.cat([ids, drawn])
        yield Step(drawn.item(), utf8.decode(bytes(drawn.tolist()), final=left == 0), probabilities)
