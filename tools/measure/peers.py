"""What tools/measure/bench.py measures the model against: the same network out of PyTorch's parts, GPT-2 out of
transformers, and a table of counts.

The two networks have the attributes that tinyllm.train and tinyllm.evaluate use (config, embedding, blocks,
head), so those two functions work on them as they are."""

from unittest import mock

import numpy as np
import torch
from torch import nn

from tinyllm import training
from tinyllm.model import Positions, causal_mask


class EncoderPeer(nn.Module):
    """The model's own architecture, built from nn.TransformerEncoder: with the model's weights in it, it
    computes the model's logits (tests/measure/test_bench.py)."""

    def __init__(self, config):
        super().__init__()
        self.config = c = config

        def norm():
            return nn.LayerNorm(c.d_model)

        def layer():
            one = nn.TransformerEncoderLayer(c.d_model, c.n_heads, c.d_ff, dropout=0.0, activation="gelu",
                                             batch_first=True, norm_first=c.norm_first, bias=c.bias)
            one.norm1, one.norm2 = norm(), norm()        # bias=False would take the bias of these as well
            return one

        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.encoder = nn.TransformerEncoder(layer(), c.n_layers, norm() if c.norm_first else None,
                                             enable_nested_tensor=False)
        # nn.TransformerEncoder copies its layer, weights and all: give each one weights of its own.
        self.encoder.layers = nn.ModuleList(layer() for _ in range(c.n_layers))
        self.head = nn.Linear(c.d_model, c.vocab_size, bias=c.bias)
        waves = Positions(f"{c.context} positions")(torch.zeros(c.context, c.d_model))     # 0 + waves
        self.register_buffer("table", waves, persistent=False)
        self.register_buffer("mask", causal_mask(c.context), persistent=False)

    @property
    def blocks(self):
        return self.encoder.layers

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embedding(ids) + self.table[:T]
        return self.head(self.encoder(x, mask=self.mask[:T, :T], is_causal=True))


class GPT2Peer(nn.Module):
    """transformers' GPT-2 at the model's sizes, without dropout and with a head of its own. What is left is
    GPT-2's: LayerNorm first and once more at the end, learned positions, a bias everywhere but in the head."""

    def __init__(self, config):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel       # takes seconds, and is not always there
        self.config = c = config
        self.gpt2 = GPT2LMHeadModel(GPT2Config(
            vocab_size=c.vocab_size, n_positions=c.context, n_embd=c.d_model, n_layer=c.n_layers,
            n_head=c.n_heads, n_inner=c.d_ff, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            tie_word_embeddings=False, bos_token_id=None, eos_token_id=None))

    @property
    def embedding(self):
        return self.gpt2.transformer.wte

    @property
    def blocks(self):
        return self.gpt2.transformer.h

    @property
    def head(self):
        return self.gpt2.lm_head

    def forward(self, ids):
        return self.gpt2(ids, use_cache=False).logits

    def generate(self, ids, tokens, use_cache):
        """Greedy, (1, T) -> (1, T + tokens)."""
        return self.gpt2.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                                  use_cache=use_cache, pad_token_id=0)


our_recipe = training.make_optimizers      # held here: timing.py puts other recipes in its place while one runs


def torch_muon(model):
    """Our recipe with PyTorch's own Muon, which works in bfloat16 and on one matrix at a time."""
    with mock.patch.object(training, "Muon", torch.optim.Muon):    # its parameters have the same names
        return our_recipe(model)


def adamw(rate):
    """The usual choice: AdamW at one learning rate for every parameter."""
    return lambda model: [torch.optim.AdamW(model.parameters(), rate, (0.9, 0.99), weight_decay=0.0, fused=True)]


class NGram:
    """At most `limit` counts of symbol sequences, the most frequent ones of up to `longest` symbols.

    A prediction mixes the sequences of all lengths (Witten and Bell's interpolation): for a past h followed
    by symbol w, with h' = h without its oldest symbol,

        p(w | h) = (c(hw) + (c(h) - S(h) + D(h)) p(w | h')) / (c(h) + D(h))

    where D(h) is the number of stored continuations of h and S(h) the sum of their counts. Without pruning,
    S(h) = c(h) and this is Witten and Bell's formula; what pruning took away, c(h) - S(h), goes to h' too.
    Below the single symbols is 1 / symbols for each."""

    def __init__(self, ids, limit, longest=8, symbols=256):
        self.symbols, self.longest = symbols, longest
        found = [np.unique(self.keys(ids, n)[n - 1:], return_counts=True) for n in range(1, longest + 1)]
        counts = np.concatenate([count for _, count in found])
        length = np.repeat(range(longest), [len(count) for _, count in found])
        # At the same count the shorter sequence first: so, with a sequence, its beginning is kept too.
        kept = np.zeros(len(counts), bool)
        kept[np.lexsort((length, -counts))[:limit]] = True
        self.tables, self.parameters, self.total = [], int(kept.sum()), len(ids)
        for n, (keys, count) in enumerate(found):
            here = kept[length == n]
            keys, count = keys[here], count[here]
            pasts, start = np.unique(keys >> np.uint64(8), return_index=True)
            sums = np.add.reduceat(count, start) if len(start) else count
            self.tables.append(((keys, count), (pasts, sums), (pasts, np.diff(np.append(start, len(keys))))))

    @staticmethod
    def keys(ids, n):
        """(N,) the n symbols that end at each place, as one number of 64 bits."""
        ids, keys = np.asarray(ids, np.uint64), np.zeros(len(ids), np.uint64)
        for back in range(min(n, len(ids))):
            keys[back:] |= ids[: len(ids) - back] << np.uint64(8 * back)
        return keys

    @staticmethod
    def look_up(table, keys):
        names, values = table
        if not len(names):
            return np.zeros(len(keys))
        at = np.searchsorted(names, keys).clip(max=len(names) - 1)
        return np.where(names[at] == keys, values[at], 0).astype(float)

    def probabilities(self, ids):
        """(N,) the probability of each symbol after all that come before it."""
        p, before = np.full(len(ids), 1 / self.symbols), np.full(len(ids), float(self.total))
        for n, (counts, sums, continuations) in enumerate(self.tables):       # n: symbols of the past
            keys = self.keys(ids, n + 1)
            pasts = keys >> np.uint64(8)
            count, stored = self.look_up(counts, keys), self.look_up(sums, pasts)
            different = self.look_up(continuations, pasts)
            use = (different > 0) & (np.arange(len(ids)) >= n)
            mixed = (count + (before - stored + different) * p) / np.where(use, before + different, 1)
            p = np.where(use, mixed, p)
            # c(h) of the next length: the past of the next place is what ends at this one
            before = np.roll(count, 1)
        return p

    def loss(self, ids):
        """Nats per symbol over ids[1:], as tinyllm.evaluate."""
        return round(float(-np.log(self.probabilities(ids)[1:]).mean()), 4)
