// TinyLLM in JavaScript: the forward pass of tinyllm/model.py with the same names, to be read beside it.
// Sums are taken in double precision; every tensor is stored as float32, as PyTorch stores it.
"use strict";

class Tensor {
  constructor(shape, data) {
    this.shape = shape;
    this.data = data ?? new Float32Array(shape.reduce((a, b) => a * b, 1));
  }
  row(i, j) { // the numbers of the last axis: x.row(t), weights.row(head, i)
    const width = this.shape.at(-1), start = (j === undefined ? i : i * this.shape[1] + j) * width;
    return this.data.subarray(start, start + width);
  }
  map(f) { // a new tensor, number by number
    return new Tensor(this.shape, this.data.map(f));
  }
}

// ---- Characters (chapter 3) ----

const encode = (text) => [...new TextEncoder().encode(text)]; // the bytes of its UTF-8
const decode = (ids) => new TextDecoder().decode(Uint8Array.from(ids));
function symbol(i) { // one id as a label that can be seen: 101 -> e, 32 -> ␣, 10 -> \n, 228 -> \xe4
  const named = { 9: "\\t", 10: "\\n", 13: "\\r", 32: "␣", 92: "\\\\" };
  return named[i] ?? (i > 32 && i < 127 ? String.fromCharCode(i) : "\\x" + i.toString(16).padStart(2, "0"));
}

// ---- The mask (chapter 4) ----

function causalMask(length) { // 0 and -Infinity: row i may look at columns 0..i
  const mask = new Tensor([length, length]);
  for (let i = 0; i < length; i++) mask.row(i).fill(-Infinity, i + 1);
  return mask;
}

// ---- Bricks (chapter 5) ----

function embed(ids, weight) { // ids (T) -> one row of the table for each, (T, C)
  const out = new Tensor([ids.length, weight.shape[1]]);
  ids.forEach((id, t) => out.row(t).set(weight.row(id)));
  return out;
}

function linear(x, weight, bias) { // y = x Wᵀ (+ b): (T, inputs) -> (T, outputs)
  const [T, inputs] = x.shape, outputs = weight.shape[0], y = new Tensor([T, outputs]), W = weight.data;
  for (let t = 0; t < T; t++) {
    const from = x.row(t), to = y.row(t);
    for (let o = 0, at = 0; o < outputs; o++) {
      let sum = bias ? bias.data[o] : 0;
      for (let i = 0; i < inputs; i++) sum += from[i] * W[at++];
      to[o] = sum;
    }
  }
  return y;
}

function layerNorm(x, weight, bias) { // each row to mean 0 and variance 1, then weight and bias
  const out = new Tensor(x.shape);
  for (let t = 0; t < x.shape[0]; t++) {
    const row = x.row(t), n = row.length;
    const mean = row.reduce((sum, a) => sum + a, 0) / n;
    const variance = row.reduce((sum, a) => sum + (a - mean) ** 2, 0) / n;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    out.row(t).set(row.map((a, c) => (a - mean) * scale * weight.data[c] + bias.data[c]));
  }
  return out;
}

function positionTable(context, dim) { // the sine in column 2i, the cosine in column 2i + 1
  const table = new Tensor([context, dim]);
  for (let t = 0; t < context; t++) {
    for (let c = 0; c < dim; c++) {
      const angle = t / 10000 ** ((c - (c % 2)) / dim);
      table.row(t)[c] = c % 2 ? Math.cos(angle) : Math.sin(angle);
    }
  }
  return table;
}

const add = (x, y) => x.map((a, i) => a + y.data[i]);

// ---- Attention (chapter 6) ----

function splitHeads(x, heads) { // (T, C) -> (H, T, D): each head gets D = C / H columns
  const [T, C] = x.shape, D = C / heads, out = new Tensor([heads, T, D]);
  for (let h = 0; h < heads; h++)
    for (let t = 0; t < T; t++) out.row(h, t).set(x.row(t).subarray(h * D, (h + 1) * D));
  return out;
}

function joinHeads(x) { // (H, T, D) -> (T, C): the heads side by side again
  const [heads, T, D] = x.shape, out = new Tensor([T, heads * D]);
  for (let h = 0; h < heads; h++)
    for (let t = 0; t < T; t++) out.row(t).set(x.row(h, t), h * D);
  return out;
}

function dotProducts(q, k) { // Q Kᵀ / √D: (H, T, D) twice -> (H, T, T)
  const [heads, T, D] = q.shape, scores = new Tensor([heads, T, T]);
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < T; i++) {
      const query = q.row(h, i), row = scores.row(h, i);
      for (let j = 0; j < T; j++) {
        const key = k.row(h, j);
        let sum = 0;
        for (let d = 0; d < D; d++) sum += query[d] * key[d];
        row[j] = sum / Math.sqrt(D);
      }
    }
  }
  return scores;
}

function softmax(numbers) { // differences become ratios, and the sum 1
  const largest = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = new Float64Array(numbers);
  let sum = 0;
  for (let i = 0; i < powers.length; i++) sum += powers[i] = Math.exp(powers[i] - largest);
  return powers.map((power) => power / sum);
}

function maskedSoftmax(scores, mask) { // row by row: softmax(scores + mask)
  const [heads, T] = scores.shape, weights = new Tensor(scores.shape);
  for (let h = 0; h < heads; h++)
    for (let i = 0; i < T; i++)
      weights.row(h, i).set(softmax(scores.row(h, i).map((score, j) => score + mask.row(i)[j])));
  return weights;
}

function average(weights, v) { // weights V: (H, T, T) and (H, T, D) -> (H, T, D)
  const [heads, T, D] = v.shape, mix = new Tensor(v.shape);
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < T; i++) {
      const sum = new Float64Array(D), weight = weights.row(h, i);
      for (let j = 0; j < T; j++) {
        const value = v.row(h, j);
        for (let d = 0; d < D; d++) sum[d] += weight[j] * value[d];
      }
      mix.row(h, i).set(sum);
    }
  }
  return mix;
}

// ---- The block (chapter 7) ----

function erf(x) { // Abramowitz and Stegun, formula 7.1.26: wrong by at most 1.5e-7
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - tail * Math.exp(-x * x));
}

const gelu = (x) => (x * (1 + erf(x / Math.SQRT2))) / 2;

// ---- The model (chapter 8) ----

class TinyLLM {
  constructor(config, weights) {
    this.config = config;
    this.weights = weights; // name -> Tensor, the names of the Python model
    this.table = positionTable(config.context, config.d_model);
  }

  static read(buffer) { // a safetensors file: length of the header, header, numbers
    const length = Number(new DataView(buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
    const { __metadata__: metadata, ...tensors } = header, weights = {};
    for (const [name, { shape, data_offsets: [start, end] }] of Object.entries(tensors))
      weights[name] = new Tensor(shape, new Float32Array(buffer.slice(8 + length + start, 8 + length + end)));
    return new TinyLLM(JSON.parse(metadata.tinyllm), weights);
  }

  // Logits (T, vocab_size) for ids (T), T <= context. Every tensor on the way is kept in `log` under
  // its name (trace); changes[name](tensor) may return another to put in its place (intervene).
  forward(ids, changes = {}, log = {}) {
    const { n_layers, n_heads, norm_first } = this.config, T = ids.length;
    const weight = (name) => this.weights[name + ".weight"], bias = (name) => this.weights[name + ".bias"];
    const keep = (name, tensor) => (log[name] = changes[name]?.(tensor) ?? tensor);
    const apply = (brick, name, x) => keep(name, brick(x, weight(name), bias(name)));

    const attention = (name, x, mask) => {
      const split = (matrix) => splitHeads(apply(linear, name + matrix, x), n_heads);
      const q = keep(name + ".q", split(".query"));                                  // (H, T, D)
      const k = keep(name + ".k", split(".key"));                                    // (H, T, D)
      const v = keep(name + ".v", split(".value"));                                  // (H, T, D)
      const scores = keep(name + ".scores", dotProducts(q, k));                      // (H, T, T)
      const weights = keep(name + ".weights", maskedSoftmax(scores, mask));          // (H, T, T)
      const mix = keep(name + ".mix", average(weights, v));                          // (H, T, D)
      return apply(linear, name + ".output", joinHeads(mix));                        // (T, C)
    };
    const ffn = (name, x) => {
      const hidden = keep(name + ".hidden", apply(linear, name + ".up", x).map(gelu)); // (T, d_ff)
      return apply(linear, name + ".down", hidden);                                  // (T, C)
    };

    let x = keep("embedding", embed(ids, weight("embedding")));                      // (T, C)
    x = keep("positions", x.map((a, i) => a + this.table.data[i]));                  // (T, C)
    const mask = keep("mask", causalMask(T));                                        // (T, T)
    for (let layer = 0; layer < n_layers; layer++) {
      const block = `blocks.${layer}`;
      const norm1 = (x) => apply(layerNorm, block + ".norm1", x), norm2 = (x) => apply(layerNorm, block + ".norm2", x);
      if (norm_first) {
        x = keep(block + ".sum1", add(x, attention(block + ".attention", norm1(x), mask)));
        x = keep(block + ".sum2", add(x, ffn(block + ".ffn", norm2(x))));            // (T, C)
      } else {
        x = norm1(keep(block + ".sum1", add(x, attention(block + ".attention", x, mask))));
        x = norm2(keep(block + ".sum2", add(x, ffn(block + ".ffn", x))));            // (T, C)
      }
    }
    if (norm_first) x = apply(layerNorm, "norm", x);                                 // (T, C)
    return apply(linear, "head", x);                                                 // (T, vocab_size)
  }
}

// ---- Generation (chapter 10) ----

function distribution(logits, temperature = 1, topK = null) { // logits (V) -> probabilities (V)
  const keep = temperature === 0 ? 1 : Math.min(topK ?? logits.length, logits.length);
  const order = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b).slice(0, keep);
  const probabilities = new Float32Array(logits.length);
  softmax(order.map((id) => (logits[id] - logits[order[0]]) / (temperature || 1)))
    .forEach((p, place) => (probabilities[order[place]] = p));
  return probabilities;
}

function draw(probabilities, random) { // one id, as likely as its probability says
  const sum = probabilities.reduce((a, b) => a + b, 0);
  let left = random() * sum, last = 0;
  for (let id = 0; id < probabilities.length; id++) {
    if (probabilities[id] === 0) continue;
    last = id;
    if ((left -= probabilities[id]) < 0) break;
  }
  return last;
}

function randomNumbers(seed) { // equal seeds, equal numbers in [0, 1); not PyTorch's (a Weyl sequence, mixed)
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
    return ((z ^ (z >>> 16)) >>> 0) / 2 ** 32;
  };
}
