// Training beside the page, so that the page stays quick: it gets weights and a text, and posts weights, losses and
// gradients as they change. Nothing leaves the computer.
"use strict";
importScripts("model.js", "train.js");

const LENGTH = 64, WINDOWS = 4, PAUSE = 120, LOOK = 20; // symbols in a window, windows in a step, ms between posts, steps between looks
const again = new MessageChannel(); // unlike a timer, not slowed down in a tab out of sight
let model, optimizer, training, heldOut, random, running = false, posted = 0, held = null;

const commands = {
  begin({ config, weights, text, rate, seed }) {
    model = new TinyLLM(config, Object.fromEntries(Object.entries(weights).map(([name, { shape, data }]) => [name, new Tensor(shape, data)])));
    optimizer = new AdamW(model.weights, { rate });
    const cut = Math.floor(text.length * 0.9);
    training = text.slice(0, cut), heldOut = text.slice(cut), random = randomNumbers(seed), held = look();
    postMessage({ step: 0, loss: null, held });
  },
  run() { if (!running) running = true, again.port2.postMessage(0); },
  pause() { running = false; },
  step() { running = false, advance(true); },
  rate({ rate }) { optimizer.rate = rate; },
};
onmessage = ({ data }) => commands[data.do](data);
again.port1.onmessage = () => { if (running) advance(false), again.port2.postMessage(0); };

function advance(alone) {
  const length = Math.min(LENGTH, model.config.context), windows = Array.from({ length: WINDOWS }, () => {
    const start = Math.floor(random() * (training.length - length));
    return training.slice(start, start + length + 1);
  });
  const { loss, grads } = trainStep(model, optimizer, windows);
  const looked = optimizer.steps % LOOK === 0;
  if (looked) held = look();
  if (!alone && !looked && performance.now() - posted < PAUSE) return;
  posted = performance.now();
  const copy = (tensors) => Object.fromEntries(Object.entries(tensors).map(([name, { shape, data }]) => [name, { shape, data: data.slice() }]));
  postMessage({ step: optimizer.steps, loss, held: looked || alone ? held : null, weights: copy(model.weights), grads: copy(grads) });
}

function look() { // the loss on the text that is held out, nats per symbol; of at most eight windows
  const length = Math.min(LENGTH, model.config.context, heldOut.length - 1);
  let sum = 0, count = 0;
  for (let start = 0; start + length < heldOut.length && count < 8 * length; start += length) {
    const ids = heldOut.slice(start, start + length + 1), logits = model.forward(ids.slice(0, -1));
    ids.slice(1).forEach((id, t) => { sum -= Math.log(softmax(logits.row(t))[id]); });
    count += length;
  }
  return sum / count;
}
