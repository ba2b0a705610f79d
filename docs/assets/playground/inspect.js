// Where a number of the map comes from: the sum written out with its numbers, the rows and columns that went
// into it, the line of Python that made it, and the chapter that explains it.
"use strict";

// Line of Python, chapter, and the line with norm_first if it is another. The lines are those of the package
// (a test compares them); the keys are the ends of the tensors' names.
const ORIGIN = {
  "embedding": ["return self.weight[ids]", "05-bricks/#piece-embedding"],
  "positions": ["return x + waves.to(x)", "05-bricks/#piece-positions"],
  "mask": ["mask = self.mask(causal_mask(ids.shape[1]).to(x))", "04-arrow-of-time/#piece-causal-mask"],
  "attention.q": ["q = self.q(self.split(self.query(x)))", "06-attention/#three-vectors-for-each-position"],
  "attention.k": ["k = self.k(self.split(self.key(x)))", "06-attention/#three-vectors-for-each-position"],
  "attention.v": ["v = self.v(self.split(self.value(x)))", "06-attention/#three-vectors-for-each-position"],
  "attention.scores": ["scores = self.scores(q @ k.mT / q.shape[-1] ** 0.5)", "06-attention/#one-row-by-hand"],
  "attention.weights": ["weights = self.weights((scores + mask).softmax(-1))", "06-attention/#the-formula-again"],
  "attention.mix": ["mix = self.mix(weights @ v)", "06-attention/#piece-attention"],
  "attention.output": ["return self.output(mix.transpose(1, 2).flatten(2))", "06-attention/#heads-are-a-reshape"],
  "sum1": ["x = self.norm1(self.sum1(x + self.attention(x, mask)))", "07-block/#the-residual-stream", "x = self.sum1(x + self.attention(self.norm1(x), mask))"],
  "sum2": ["return self.norm2(self.sum2(x + self.ffn(x)))", "07-block/#the-residual-stream", "return self.sum2(x + self.ffn(self.norm2(x)))"],
  "ffn.up": ["return self.down(self.hidden(nn.functional.gelu(self.up(x))))", "07-block/#piece-feed-forward"],
  "ffn.hidden": ["return self.down(self.hidden(nn.functional.gelu(self.up(x))))", "07-block/#the-feed-forward-network"],
  "ffn.down": ["return self.down(self.hidden(nn.functional.gelu(self.up(x))))", "07-block/#piece-feed-forward"],
  "norm": ["return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias", "05-bricks/#layernorm-keep-the-size-in-check"],
  "head": ["return self.head(x)", "08-model/#piece-model"],
  "probabilities": ["return torch.zeros_like(logits).scatter(0, ids, kept.softmax(0).to(logits.dtype))", "10-generation/#piece-distribution"],
};

const ends = (name) => name.replace(/^blocks\.\d+\./, "").replace(/^norm\d$/, "norm");
const nice = (x) => (x === -Infinity ? "−∞" : (Math.abs(x) < 0.005 && x !== 0 ? x.toFixed(4) : x.toFixed(2)).replace("-", "−"));
const plus = (a, b) => `${nice(a)} ${b < 0 ? "−" : "+"} ${nice(Math.abs(b))}`;

function products(pairs, count = 3) { // the largest of the products that are added up
  const sorted = pairs.map(([a, b]) => [a, b, a * b]).sort((p, q) => Math.abs(q[2]) - Math.abs(p[2])).slice(0, count);
  return sorted.map(([a, b]) => `${nice(a)} · ${b < 0 ? `(${nice(b)})` : nice(b)}`).join(" + ")
    + (pairs.length > count ? ` + … (${pairs.length} products, the largest first)` : "");
}

// What number (r, c) of a tile is made from. `sources` are pairs [tile, {row, column, from, to}] to be lit.
function explain(plan, tile, r, c, { model, now, touched }) {
  const name = tile.names.at(-1), { n_heads: H, d_model: C, norm_first } = model.config, D = C / H;
  const block = name.match(/^blocks\.\d+/)?.[0], attention = `${block}.attention`;
  const find = (other, head = null) => findTile(plan, other, head, tile.row);
  const value = (other, row, column) => numberAt(other, row, column, model, now);
  const symbolAt = (t) => `${now.labels[t]} at ${t}`;
  const stream = () => find(Number(block?.split(".")[1]) ? `blocks.${block.split(".")[1] - 1}.${norm_first ? "sum2" : "norm2"}` : "positions");
  const sources = [], light = (other, where) => { sources.push([other, where]); return other; };

  if (tile.weight) {
    const [o, i] = tile.transposed ? [c, r] : [r, c];
    const to = name === "head.weight" ? `the logit of ${symbol(o)}` : `column ${o} of what goes out`;
    const use = tile.vector ? `for column ${c}` : name.startsWith("embedding") ? `column ${c} of the symbol ${symbol(r)}`
      : `from column ${i} of what comes in to ${to}`;
    return { name, sources, what: `${now.gradients ? "the gradient of the loss by the weight" : "a weight, learned:"} ${use}`, origin: null };
  }
  const from = {
    embedding: () => (light(find("embedding.weight"), { row: now.ids[r], column: c }), `row ${now.ids[r]} of the table, the symbol ${now.labels[r]}, column ${c}`),
    positions: () => {
      const before = light(find("embedding"), { row: r, column: c });
      return touched("positions") ? "changed by you" : `${plus(value(before, r, c), model.table.row(r)[c])}, the ${c % 2 ? "cosine" : "sine"} of ${r} / 10000^(${c - (c % 2)}/${C})`;
    },
    mask: () => (touched("mask") ? "the mask is switched off" : `${symbolAt(c)} ${c <= r ? "is not in the future: 0" : "lies in the future: −∞"}`),
    "attention.scores": () => {
      const q = light(find(attention + ".q"), { row: r, from: tile.head * D, to: (tile.head + 1) * D });
      const k = light(find(attention + ".k"), { row: c, from: tile.head * D, to: (tile.head + 1) * D });
      const pairs = Array.from({ length: D }, (_, d) => [value(q, r, tile.head * D + d), value(k, c, tile.head * D + d)]);
      return `query of ${symbolAt(r)} · key of ${symbolAt(c)}, divided by √${D}: (${products(pairs, 2)}) / ${nice(Math.sqrt(D))}`;
    },
    "attention.weights": () => {
      const scores = light(find(attention + ".scores", tile.head), { row: r });
      light(find("mask"), { row: r });
      const masked = Array.from({ length: plan.T }, (_, j) => value(scores, r, j) + now.shown.mask.row(r)[j]), largest = Math.max(...masked);
      const sum = masked.reduce((total, score) => total + Math.exp(score - largest), 0);
      return `e^(${plus(masked[c], -largest)}) / ${nice(sum)}: the share of ${symbolAt(c)} in what ${symbolAt(r)} looks at`;
    },
    "attention.mix": () => {
      const head = Math.floor(c / D), weights = light(find(attention + ".weights", head), { row: r });
      const v = light(find(attention + ".v"), { column: c });
      return products(Array.from({ length: plan.T }, (_, j) => [value(weights, r, j), value(v, j, c)]));
    },
    "ffn.hidden": () => `GELU(${nice(value(light(find(block + ".ffn.up"), { row: r, column: c }), r, c))})`,
    sum1: () => {
      const x = light(stream(), { row: r, column: c }), added = light(find(attention + ".output"), { row: r, column: c });
      return `${plus(value(x, r, c), value(added, r, c))}: what attention found is added to the stream`;
    },
    sum2: () => {
      const x = light(find(block + (norm_first ? ".sum1" : ".norm1")), { row: r, column: c }), added = light(find(block + ".ffn.down"), { row: r, column: c });
      return `${plus(value(x, r, c), value(added, r, c))}: what the FFN found is added to the stream`;
    },
    probabilities: () => {
      const logits = light(find("head"), { row: r }), row = Array.from({ length: tile.cols }, (_, id) => value(logits, r, id)), largest = Math.max(...row);
      return `e^(${plus(row[c], -largest)}) / ${nice(row.reduce((sum, a) => sum + Math.exp(a - largest), 0))}: the chance that ${symbol(c)} comes after ${symbolAt(r)}`;
    },
    norm: () => {
      const before = name === "norm" ? `blocks.${model.config.n_layers - 1}.sum2`
        : !norm_first ? `${block}.sum${name.at(-1)}` : name.endsWith("norm1") ? stream().names.at(-1) : block + ".sum1";
      const x = light(find(before), { row: r }), row = Array.from({ length: C }, (_, i) => value(x, r, i));
      const mean = row.reduce((a, b) => a + b, 0) / C, deviation = Math.sqrt(row.reduce((sum, a) => sum + (a - mean) ** 2, 0) / C + 1e-5);
      const weight = value(light(find(name + ".weight"), { column: c }), 0, c), shift = value(light(find(name + ".bias"), { column: c }), 0, c);
      return `(${plus(row[c], -mean)}) / ${nice(deviation)} · ${nice(weight)} ${shift < 0 ? "−" : "+"} ${nice(Math.abs(shift))}: minus the mean, by the deviation, times a weight, plus a bias`;
    },
    linear: () => { // y = x Wᵀ (+ b)
      const [layer] = tile.names, weight = light(find(layer + ".weight"), { column: c });
      const input = /query|key|value$/.test(layer) ? (norm_first ? find(block + ".norm1") : stream())
        : layer.endsWith("output") ? find(attention + ".mix") : layer.endsWith("up") ? find(block + (norm_first ? ".norm2" : ".norm1"))
        : layer.endsWith("down") ? find(block + ".ffn.hidden") : find(norm_first ? "norm" : `blocks.${model.config.n_layers - 1}.norm2`);
      light(input, { row: r });
      const bias = find(layer + ".bias");
      const pairs = Array.from({ length: weight.rows }, (_, i) => [value(input, r, i), value(weight, i, c)]);
      return products(pairs) + (bias ? ` + ${nice(value(light(bias, { column: c }), 0, c))}` : "");
    },
  };
  const kind = ends(name), what = (from[kind] ?? from.linear)();
  return { name, sources, what: touched(name, tile.head ?? (tile.heads ? Math.floor(c / D) : null), r, c) ? `${what}. Changed by you afterwards` : what, origin: ORIGIN[kind] };
}

// How a tile is called in words, with its shape.
function tileShape(tile, T) {
  if (tile.vector) return `(${tile.cols})`;
  if (tile.transposed) return `(${tile.cols}, ${tile.rows}), drawn transposed`;
  if (tile.weight) return `(${tile.rows}, ${tile.cols})`;
  if (tile.head !== null) return `(H, T, T) = (${tile.of}, ${T}, ${T}), head ${tile.head}`;
  if (tile.heads) return `(H, T, D) = (${tile.heads}, ${T}, ${tile.cols / tile.heads}), the heads side by side`;
  const name = tile.names.at(-1), columns = /head|probabilities/.test(name) ? "V" : /up|hidden/.test(name) ? "d_ff" : "C";
  return name === "mask" ? `(T, T) = (${T}, ${T})` : `(T, ${columns}) = (${T}, ${tile.cols})`;
}
