"""Text out of a model, one step at a time (chapter 10)."""
import codecs
from typing import Iterator, NamedTuple
import torch
from tinyllm.model import TinyLLM, require
from tinyllm.text import encode

def distribution(logits: torch.Tensor, temperature: float = 1.0,
                 top_k: int | None = None) -> torch.Tensor:
    """Logits (V,) -> probabilities (V,) of the top_k largest; temperature 0: of the first."""
    require(0 <= temperature < torch.inf, f"temperature must be 0 or more, not {temperature}")
    require(top_k is None or top_k >= 1, f"top_k must be 1 or more, not {top_k}")
    kept, ids = logits.topk(1 if temperature == 0 else min(top_k or len(logits), len(logits)))
    kept = (kept - kept[0]).double() / (temperature or 1)             # the largest is 0
    return torch.zeros_like(logits).scatter(0, ids, kept.softmax(0).to(logits.dtype))

@torch.no_grad()
def next_logits(model: TinyLLM, ids: torch.Tensor) -> torch.Tensor:
    """Logits (V,) for the symbol after ids (T,), of which the last `context` are read."""
    require(len(ids) > 0, "the prompt is empty: give at least one character")
    ids = ids[-model.config.context :].to(model.head.weight.device)
    return model(ids[None])[0, -1].cpu()

Step = NamedTuple("Step", [("id", int), ("text", str), ("probabilities", torch.Tensor)])

def generate(model: TinyLLM, prompt: str, tokens: int = 50, temperature: float = 0.8,
             top_k: int | None = None, seed: int = 0) -> Iterator[Step]:
    """Continue prompt, one Step at a time: "".join(step.text for step in generate(...))."""
    require(tokens >= 0, f"tokens must be 0 or more, not {tokens}")
    require(model.config.vocab_size <= 256, "only a model of bytes can write text")
    ids = encode(prompt)
    distribution(next_logits(model, ids), temperature, top_k)         # bad input fails here
    def steps(ids):
        generator = torch.Generator().manual_seed(seed)
        utf8 = codecs.getincrementaldecoder("utf-8")("replace")   # "" inside a long character
        for left in reversed(range(tokens)):
            probabilities = distribution(next_logits(model, ids), temperature, top_k)
            drawn = torch.multinomial(probabilities, 1, generator=generator)
            ids = torch.cat([ids, drawn])
            yield Step(int(drawn), utf8.decode(bytes(drawn.tolist()), left == 0), probabilities)
    return steps(ids)
