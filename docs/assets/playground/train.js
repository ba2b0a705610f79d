// Training in JavaScript: the way back of chapter 9, with the names of model.js, and AdamW. Each function below is
// the derivative of the one with the same name there; d… stands for the gradient of the loss by ….
"use strict";

const zeros = (tensors) => Object.fromEntries(Object.entries(tensors).map(([name, { shape }]) => [name, new Tensor(shape)]));

function linearBack(x, weight, dy, dweight, dbias) { // y = x Wᵀ + b: returns dx, adds to dW and db
  const [T, inputs] = x.shape, outputs = weight.shape[0], dx = new Tensor(x.shape), W = weight.data, dW = dweight.data;
  for (let t = 0; t < T; t++) {
    const from = x.row(t), back = dx.row(t), dto = dy.row(t);
    for (let o = 0, at = 0; o < outputs; o++) {
      const d = dto[o];
      if (dbias) dbias.data[o] += d;
      for (let i = 0; i < inputs; i++, at++) {
        back[i] += d * W[at];
        dW[at] += d * from[i];
      }
    }
  }
  return dx;
}

function layerNormBack(x, weight, dy, dweight, dbias) {
  const dx = new Tensor(x.shape);
  for (let t = 0; t < x.shape[0]; t++) {
    const row = x.row(t), dto = dy.row(t), back = dx.row(t), n = row.length;
    let mean = 0, variance = 0, sum = 0, dot = 0;
    for (let c = 0; c < n; c++) mean += row[c] / n;
    for (let c = 0; c < n; c++) variance += (row[c] - mean) ** 2 / n;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    for (let c = 0; c < n; c++) { // d: by the normalised number
      const normal = (row[c] - mean) * scale, d = dto[c] * weight.data[c];
      dweight.data[c] += dto[c] * normal, dbias.data[c] += dto[c];
      sum += d / n, dot += d * normal / n;
    }
    for (let c = 0; c < n; c++) back[c] = scale * (dto[c] * weight.data[c] - sum - (row[c] - mean) * scale * dot);
  }
  return dx;
}

function geluBack(x, dy) { // the derivative of x Φ(x) is Φ(x) + x φ(x)
  return new Tensor(x.shape, x.data.map((a, i) =>
    dy.data[i] * ((1 + erf(a / Math.SQRT2)) / 2 + a * Math.exp(-a * a / 2) / Math.sqrt(2 * Math.PI))));
}

function attentionBack(q, k, v, weights, dmix) { // mix = softmax(q kᵀ / √D + mask) v: returns dq, dk, dv
  const [heads, T, D] = q.shape, dq = new Tensor(q.shape), dk = new Tensor(k.shape), dv = new Tensor(v.shape), dweight = new Float64Array(T);
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < T; i++) {
      const row = weights.row(h, i), d = dmix.row(h, i), query = q.row(h, i), dquery = dq.row(h, i);
      let shared = 0; // softmax: what all weights of the row have in common
      for (let j = 0; j < T; j++) {
        if (row[j] === 0) continue; // the future
        const value = v.row(h, j), dvalue = dv.row(h, j);
        let sum = 0;
        for (let c = 0; c < D; c++) sum += d[c] * value[c], dvalue[c] += row[j] * d[c];
        dweight[j] = sum, shared += sum * row[j];
      }
      for (let j = 0; j < T; j++) {
        if (row[j] === 0) continue;
        const dscore = row[j] * (dweight[j] - shared) / Math.sqrt(D), key = k.row(h, j), dkey = dk.row(h, j);
        for (let c = 0; c < D; c++) dquery[c] += dscore * key[c], dkey[c] += dscore * query[c];
      }
    }
  }
  return [dq, dk, dv];
}

// The loss of one window, nats per symbol, times `share`; its gradients are added to `grads`, name -> Tensor.
function lossAndGradients(model, ids, targets, grads, share = 1) {
  const { n_layers, n_heads, norm_first } = model.config, log = {}, logits = model.forward(ids, {}, log), T = ids.length;
  const weight = (name) => model.weights[name + ".weight"], d = (name) => grads[name + ".weight"], dbias = (name) => grads[name + ".bias"];
  const back = (brick, name, x, dy) => brick(x, weight(name), dy, d(name), dbias(name));

  let loss = 0;
  const dlogits = new Tensor(logits.shape);
  for (let t = 0; t < T; t++) {
    const p = softmax(logits.row(t)), to = dlogits.row(t);
    loss -= Math.log(p[targets[t]]) * share / T;
    for (let id = 0; id < p.length; id++) to[id] = (p[id] - (id === targets[t] ? 1 : 0)) * share / T;
  }

  const attention = (name, x, dy) => {
    const at = (part) => log[`${name}.${part}`];
    const dmix = splitHeads(back(linearBack, name + ".output", joinHeads(at("mix")), dy), n_heads);
    const [dq, dk, dv] = attentionBack(at("q"), at("k"), at("v"), at("weights"), dmix);
    const parts = [["query", dq], ["key", dk], ["value", dv]].map(([part, dpart]) => back(linearBack, `${name}.${part}`, x, joinHeads(dpart)));
    return add(add(parts[0], parts[1]), parts[2]);
  };
  const ffn = (name, x, dy) => {
    const dhidden = back(linearBack, name + ".down", log[name + ".hidden"], dy);
    return back(linearBack, name + ".up", x, geluBack(log[name + ".up"], dhidden));
  };

  const last = `blocks.${n_layers - 1}`, ends = norm_first ? "sum2" : "norm2";
  let dx = back(linearBack, "head", log[norm_first ? "norm" : `${last}.norm2`], dlogits);
  if (norm_first) dx = back(layerNormBack, "norm", log[`${last}.sum2`], dx);
  for (let layer = n_layers - 1; layer >= 0; layer--) {
    const block = `blocks.${layer}`, x = log[layer ? `blocks.${layer - 1}.${ends}` : "positions"];
    if (norm_first) { // the copy that goes through the sub-layer, and the one that takes the arc
      dx = add(dx, back(layerNormBack, block + ".norm2", log[block + ".sum1"], ffn(block + ".ffn", log[block + ".norm2"], dx)));
      dx = add(dx, back(layerNormBack, block + ".norm1", x, attention(block + ".attention", log[block + ".norm1"], dx)));
    } else {
      dx = back(layerNormBack, block + ".norm2", log[block + ".sum2"], dx);
      dx = add(dx, ffn(block + ".ffn", log[block + ".norm1"], dx));
      dx = back(layerNormBack, block + ".norm1", log[block + ".sum1"], dx);
      dx = add(dx, attention(block + ".attention", x, dx));
    }
  }
  ids.forEach((id, t) => dx.row(t).forEach((a, c) => { d("embedding").row(id)[c] += a; })); // positions add, and let all through
  return loss;
}

class AdamW { // Loshchilov and Hutter, 2019, as PyTorch does it
  constructor(weights, { rate = 0.003, betas = [0.9, 0.99], decay = 0.1 } = {}) {
    Object.assign(this, { weights, rate, betas, decay, steps: 0, mean: zeros(weights), square: zeros(weights) });
  }
  step(grads) {
    const [b1, b2] = this.betas, n = ++this.steps;
    for (const [name, { data }] of Object.entries(this.weights)) {
      const g = grads[name].data, m = this.mean[name].data, s = this.square[name].data;
      for (let i = 0; i < data.length; i++) {
        m[i] += (g[i] - m[i]) * (1 - b1);
        s[i] += (g[i] * g[i] - s[i]) * (1 - b2);
        data[i] -= this.rate * (this.decay * data[i] + m[i] / (1 - b1 ** n) / (Math.sqrt(s[i] / (1 - b2 ** n)) + 1e-8));
      }
    }
  }
}

// One step of training on some windows of ids: the loss, and the gradients it was made with.
function trainStep(model, optimizer, windows) {
  const grads = zeros(model.weights);
  const loss = windows.reduce((sum, ids) => sum + lossAndGradients(model, ids.slice(0, -1), ids.slice(1), grads, 1 / windows.length), 0);
  optimizer.step(grads);
  return { loss, grads };
}
