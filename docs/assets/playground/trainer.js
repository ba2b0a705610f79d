// Train on the reader's own text: the controls, the curve, and the way of the weights from the worker onto the map.
"use strict";

const OWN_TEXT = `语言模型只做一件事：读一段文字，猜下一个符号。它先把每个符号变成一行数字，再加上位置。然后，每个位置都问前面的位置：你们谁知道我需要的东西？
注意力就是这样的问答。问的是查询，答的是键，交出来的是值。查询和键越合适，这个值就越重。未来是关着的，因为答案不能先看。
接着，每一行数字单独经过一个小网络：变宽，压低负数，再变窄。得到的东西加到原来的那一行上，没有什么被擦掉，只是越加越多。
两层以后，最后一个矩阵给每个符号打一个分。分数变成概率，概率最大的符号最可能写出来。写出来的符号又成为文字的一部分，一切从头再来。
训练就是一点一点地改这些数字。先猜，再看真正的下一个符号，算一算有多惊讶，然后把每个数字朝着少一点惊讶的方向推一小步。一万步以后，噪音变成了词，词变成了句子。
这里的一切都看得见。每个数字都可以打印，可以测量，可以改。改了以后，看看会怎么样。这就是这本书的办法：先说，再看，然后弄坏它。
`;

function trainer(app, box) {
  const { el, put, state } = app, { here } = app, MOST = 200_000;
  const text = el("textarea", { rows: 3, "aria-label": "a text to train on", placeholder: "Paste a text here, or drop a file. A page or two is enough. It stays on your computer.", spellcheck: "false" });
  const fetched = async (address, what) => {
    if (location.protocol === "file:") throw new Error("a page opened from a file may not load it; paste a text instead");
    const answer = await fetch(new URL(address, here));
    if (!answer.ok) throw new Error(`it cannot be loaded (${answer.status})`);
    return what(await answer.text());
  };
  const article = (page) => new DOMParser().parseFromString(page, "text/html").querySelector("article").textContent.replace(/\s*\n\s*/g, "\n");
  const chip = (label, get) => el("button", { type: "button", class: "pg-chip", onclick: async () => {
    try { text.value = await get(), stop(); } catch (problem) { put(note, `The text cannot be used: ${problem.message}.`); }
  } }, label);
  const from = el("select", { "aria-label": "weights to begin with" }, el("option", { value: "map" }, "continue from the weights on the map"), el("option", { value: "nothing" }, "start from nothing"));
  const rate = el("select", { "aria-label": "learning rate" }, ...[0.0003, 0.001, 0.003, 0.01, 0.03].map((value) => el("option", { value, selected: value === 0.003 }, `${value}`)));
  const button = (label, action) => el("button", { type: "button", class: "pg-button", onclick: action }, label);
  const go = button("Train", () => (running ? pause() : start(() => send("run") && begin())));
  const one = button("One step", () => start(() => { pause(), send("step"); }));
  const reset = button("Back to the shipped weights", () => { app.halt(), state.model = app.shipped, state.moment = "", app.update(); });
  const save = button("Download the weights", download), gradients = el("input", { type: "checkbox", id: "pg-gradients" });
  const curve = el("canvas", { class: "pg-curve", role: "img" }), note = el("p", { class: "pg-reading", "aria-live": "polite" }), sample = el("p", { class: "pg-text", hidden: true });
  box.append(text, el("p", { class: "pg-try" }, "Or take: ", chip("chapter 6 of this book", () => fetched("../../06-attention/", article)),
    chip("the code of this page", () => fetched("model.js", (code) => code)), chip("一页中文 (a page in Chinese)", async () => OWN_TEXT)),
    el("p", { class: "pg-actions" }, from, el("label", {}, "learning rate ", rate), go, one, reset, save),
    el("label", { for: "pg-gradients" }, gradients, " show each weight's gradient in its place"), curve, note, sample);
  text.addEventListener("input", () => stop());
  text.addEventListener("dragover", (event) => event.preventDefault());
  text.addEventListener("drop", async (event) => {
    if (!event.dataTransfer.files[0]) return;
    event.preventDefault(), event.stopPropagation();
    text.value = (await event.dataTransfer.files[0].text()).slice(0, MOST), stop();
  });
  rate.addEventListener("change", () => worker && send("rate", { rate: Number(rate.value) }));
  gradients.addEventListener("change", () => { show(); });
  box.addEventListener("closed", () => pause());

  let worker = null, running = false, losses = [], looks = [], latest = null, asked = 0;
  const send = (what, more = {}) => { worker.postMessage({ do: what, ...more }); return true; };
  const begin = () => { running = true, put(go, "Pause"); };
  function pause() { if (worker) send("pause"); running = false, put(go, worker ? "Go on" : "Train"); }
  function stop() { worker?.terminate(), worker = null, losses = [], looks = [], latest = null, pause(), draw_curve(), put(note, ""), sample.hidden = true; }

  function start(then) { // a worker with text and weights, unless there is one
    if (worker) return then();
    const ids = encode(text.value.slice(0, MOST)), length = Math.min(64, state.model.config.context), needed = Math.ceil((length + 2) / 0.9) + 2;
    if (location.protocol === "file:") return put(note, "A page opened from a file may not train; it works on the published site, or under make serve.");
    if (ids.length < needed) return put(note, ids.length ? `The text has ${ids.length} symbols; at least ${needed} are needed, a tenth of them to test on.` : "Paste a text first, or take one of the three.");
    if (new Set(ids).size < 2) return put(note, "The text repeats one symbol: there is nothing to learn.");
    worker = new Worker(new URL("worker.js", here));
    worker.onerror = () => { stop(), put(note, "The browser cannot train here."); };
    worker.onmessage = ({ data }) => receive(data);
    const weights = from.value === "nothing" ? fresh(state.model.weights, 0) : state.model.weights;
    const plain = Object.fromEntries(Object.entries(weights).map(([name, { shape, data }]) => [name, { shape, data }]));
    send("begin", { config: state.model.config, weights: plain, text: ids, rate: Number(rate.value), seed: 0 });
    then();
  }
  function fresh(weights, seed) { // as Python begins: embedding normal, Linear uniform within 1/√inputs, LayerNorm 1 and 0
    const random = randomNumbers(seed), normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    return Object.fromEntries(Object.entries(weights).map(([name, x]) => [name, x.map(() =>
      name.startsWith("embedding") ? normal() : x.shape.length === 2 ? (2 * random() - 1) / Math.sqrt(x.shape[1]) : /norm.*weight/.test(name) ? 1 : 0)]));
  }
  function receive({ step, loss, held, weights, grads }) {
    if (held !== null) looks.push([step, held]);
    if (loss !== null) losses.push([step, loss]);
    if (weights) latest = { step, weights: tensors(weights), grads: tensors(grads) }, show();
    draw_curve();
    const [first, last] = [looks[0][1], looks.at(-1)[1]];
    put(note, step === 0 ? `Held-out text: ${first.toFixed(2)} nats per symbol before the first step.`
      : `Step ${step}: loss ${loss.toFixed(2)} nats per symbol; held-out text ${first.toFixed(2)} before the first step, ${last.toFixed(2)} after step ${looks.at(-1)[0]}.`);
    if (latest && performance.now() - asked > 4000) write();
  }
  const tensors = (plain) => Object.fromEntries(Object.entries(plain).map(([name, { shape, data }]) => [name, new Tensor(shape, data)]));
  function show() { // onto the map
    if (!latest) return;
    state.model = new TinyLLM(state.model.config, latest.weights), state.moment = `trained here, step ${latest.step}`;
    state.gradients = gradients.checked ? latest.grads : null;
    app.update();
  }
  function write() { // some symbols after the reader's sentence
    asked = performance.now();
    const ids = app.now.all.slice(-20), random = randomNumbers(1), model = state.model;
    for (let n = 0; n < 40 && ids.length; n++) ids.push(draw(distribution(model.forward(ids.slice(-model.config.context)).row(Math.min(ids.length, model.config.context) - 1), 0.8), random));
    sample.hidden = !ids.length, put(sample, `It writes: ${decode(ids)}`);
  }
  function draw_curve() {
    const width = box.clientWidth || 300, height = 90, ratio = window.devicePixelRatio || 1, g = curve.getContext("2d");
    curve.hidden = !looks.length;
    curve.width = width * ratio, curve.height = height * ratio, curve.style.height = `${height}px`, g.scale(ratio, ratio);
    if (!looks.length) return;
    const all = [...losses, ...looks], steps = Math.max(50, all.at(-1)[0], losses.at(-1)?.[0] ?? 0), top = Math.max(...all.map(([, loss]) => loss)) * 1.05;
    const at = ([step, loss]) => [34 + step / steps * (width - 44), 6 + (1 - loss / top) * (height - 22)];
    const line = (points, colour, wide) => { g.strokeStyle = colour, g.lineWidth = wide, g.beginPath(), points.forEach((point) => g.lineTo(...at(point))), g.stroke(); };
    line(losses, app.colour("--pg-old"), 1), line(looks, app.colour("--pg-minus"), 2.5);
    g.fillStyle = app.colour("--pg-ink"), g.font = "10px sans-serif";
    g.fillText(top.toFixed(1), 2, 12), g.fillText("0", 2, height - 16), g.fillText(`step ${steps}`, width - 60, height - 3), g.fillText("nats per symbol: thin, each batch; thick, held out", 34, height - 3);
    curve.setAttribute("aria-label", note.textContent);
  }
  function download() { // a safetensors file, as TinyLLM.load reads it
    const weights = Object.entries(state.model.weights);
    let offset = 0;
    const header = { __metadata__: { tinyllm: JSON.stringify(state.model.config) } };
    for (const [name, { shape, data }] of weights) header[name] = { dtype: "F32", shape, data_offsets: [offset, (offset += 4 * data.length)] };
    let json = JSON.stringify(header);
    json += " ".repeat((8 - (new TextEncoder().encode(json).length % 8)) % 8);
    const bytes = new TextEncoder().encode(json), length = new DataView(new ArrayBuffer(8));
    length.setBigUint64(0, BigInt(bytes.length), true);
    const link = el("a", { href: URL.createObjectURL(new Blob([length.buffer, bytes, ...weights.map(([, { data }]) => data)])), download: "trained-here.safetensors" });
    link.click(), URL.revokeObjectURL(link.href);
  }
  app.halt = () => { if (worker) stop(); state.gradients = null; };
  window.playground.training = { get latest() { return latest; }, get losses() { return losses; }, get looks() { return looks; } };
}
