// The playground: shows what model.js computes, and lets the reader change it. One state for all the
// panels of a page; a panel is a <div class="tinyllm-playground" data-panel="sentence map …">. The map is
// in stage.js.
"use strict";
(async () => {
  const panels = [...document.querySelectorAll(".tinyllm-playground")];
  const here = document.currentScript?.src ?? document.querySelector('script[src$="playground/ui.js"]').src;

  // ---- Small tools ----

  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children);
    return node;
  }
  function children(parent, count, make) { // keep the nodes that are there: the focus stays where it is
    while (parent.childElementCount < count) parent.append(make(parent.childElementCount));
    while (parent.childElementCount > count) parent.lastElementChild.remove();
    return [...parent.children];
  }
  const put = (node, text) => node.textContent !== text && (node.textContent = text);
  const percent = (p) => (Number.isNaN(p) ? "no number" : p >= 0.0995 ? (100 * p).toFixed(0) : p >= 0.00095 ? (100 * p).toFixed(1) : p > 0 ? "<0.1" : "0") + " %";
  const number = (x) => (x === -Infinity ? "−∞" : (Math.abs(x) < 0.005 && x !== 0 ? x.toFixed(4) : x.toFixed(2)).replace("-", "−"));
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
  const colour = (name) => getComputedStyle(panels[0]).getPropertyValue(name).trim();

  // ---- The model and the state ----

  const load = (name) => new Promise((resolve, reject) => {
    const script = el("script", { src: new URL(name, here) });
    script.onload = resolve, script.onerror = () => reject(new Error(`${name} cannot be loaded`));
    document.head.append(script);
  });
  async function weights() {
    if (location.protocol !== "file:") {
      const answer = await fetch(new URL("pretrained.safetensors", here));
      if (!answer.ok) throw new Error(`the weights cannot be loaded (${answer.status})`);
      return answer.arrayBuffer();
    }
    await load("pretrained.js"); // a page opened from a file may not fetch
    return Uint8Array.from(atob(window.tinyllmWeights), (c) => c.charCodeAt(0)).buffer;
  }

  let shipped;
  try {
    shipped = TinyLLM.read(await weights());
  } catch (problem) {
    for (const panel of panels) panel.prepend(el("p", { class: "pg-note" }, `The playground cannot start: ${problem.message}.`));
    return;
  }

  // Some moments of the training: each tensor of the model, stacked, in half precision.
  async function checkpoints() {
    if (location.protocol === "file:") throw new Error("a page opened from a file may not load it; it works on the published site, or under `make serve`");
    const answer = await fetch(new URL("checkpoints.safetensors", here));
    if (!answer.ok) throw new Error(`the file cannot be loaded (${answer.status})`);
    const buffer = await answer.arrayBuffer(), length = Number(new DataView(buffer).getBigUint64(0, true));
    const { __metadata__: about, ...tensors } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
    const steps = JSON.parse(about.steps), validation = JSON.parse(about.validation), config = JSON.parse(about.tinyllm);
    const single = (half) => { // sign, 5 bits of exponent, 10 bits of fraction
      const exponent = (half >> 10) & 31, fraction = half & 1023;
      return (half >> 15 ? -1 : 1) * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
    };
    const table = Float32Array.from({ length: 65536 }, (_, half) => single(half));
    const moments = steps.map((step, n) => ({ step, validation: validation[n], model: new TinyLLM(config, Object.fromEntries(
      Object.entries(tensors).map(([name, { shape: [count, ...shape], data_offsets: [start, end] }]) => {
        const size = (end - start) / count, from = 8 + length + start + n * size;
        return [name, new Tensor(shape, Float32Array.from(new Uint16Array(buffer.slice(from, from + size)), (half) => table[half]))];
      }))) }));
    return [...moments, { step: null, validation: validation.at(-1), model: shipped }]; // the end: the shipped weights themselves
  }

  const given = panels.map((panel) => panel.dataset.text).find(Boolean);
  const untouched = () => ({ scales: new Map(), cells: new Map() }); // see `changes`
  const state = {
    model: shipped, moment: "", text: given ?? "It is not a list", ids: null, // ids: what was generated, if that is what is read
    at: null, hover: null,                                        // at: the chosen position in the window; null is the last
    off: untouched(), heads: [], difference: false, gradients: null,               // heads[layer]: the one drawn in full when there is no room for all
  };

  // What the reader has changed, as functions for forward(). The keys of `scales` are "name" or "name#head", and their
  // values are factors, 0 for what is off; those of `cells` are "name#head#row#column", the head empty where there is none.
  function changes() {
    const found = {}, of = (name) => (found[name] ??= { scales: [], cells: [] });
    for (const [key, factor] of state.off.scales) {
      const [name, head] = key.split("#");
      if (!name.endsWith(".weight") && factor !== 1) of(name).scales.push([head, factor]);
    }
    for (const [key, value] of state.off.cells) {
      const [name, head, r, c] = key.split("#");
      if (!isWeight(name)) of(name).cells.push([head, Number(r), Number(c), value]);
    }
    return Object.fromEntries(Object.entries(found).map(([name, { scales, cells }]) => [name, (x) => {
      const out = x.map((a) => a), { data, shape } = out, per = data.length / shape[0];
      for (const [head, factor] of scales) {
        if (name === "positions") out.data.forEach((a, i) => { data[i] = a + (factor - 1) * state.model.table.data[i]; });
        else for (let i = head ? head * per : 0; i < (head ? (Number(head) + 1) * per : data.length); i++) data[i] = factor ? data[i] * factor : 0;
      }
      for (const [head, r, c, value] of cells) {
        const last = shape.at(-1), T = shape.at(-2);
        if (r >= T || (shape.length === 3 && head !== "" && c >= last)) continue;
        if (shape.length === 2) data[r * last + c] = value;
        else if (head !== "") data[(head * T + r) * last + c] = value;
        else data[(Math.floor(c / last) * T + r) * last + c % last] = value;  // heads side by side
      }
      return out;
    }]));
  }
  const isWeight = (name) => /\.(weight|bias)$/.test(name);
  function changedModel() { // the model, with the weights that the reader has changed
    const weights = {};
    for (const [key, factor] of state.off.scales) if (isWeight(key) && factor !== 1) weights[key] = state.model.weights[key].map((a) => a * factor);
    for (const [key, value] of state.off.cells) {
      const [name, , r, c] = key.split("#");
      if (!isWeight(name)) continue;
      const { shape } = state.model.weights[name];
      weights[name] ??= state.model.weights[name].map((a) => a);
      weights[name].data[shape.length === 1 ? c : r * shape[1] + Number(c)] = value;
    }
    return Object.keys(weights).length ? new TinyLLM(state.model.config, { ...state.model.weights, ...weights }) : state.model;
  }

  // What the panels draw: computed anew whenever text, model or changes change.
  let now;
  function compute() {
    const { context } = state.model.config, all = state.ids ?? encode(state.text), start = Math.max(0, all.length - context), ids = all.slice(start);
    const T = ids.length, log = {}, changedLog = {}, change = changes(), model = changedModel();
    const changed = Object.keys(change).length > 0 || model !== state.model;
    const logits = state.model.forward(ids, {}, log);
    const changedLogits = changed ? model.forward(ids, change, changedLog) : logits;
    // A key after the text changes no chance before it: the mask sees to that, so those are kept.
    const old = now && !now.changed && !changed && now.model === state.model && now.start === start ? now : { ids: [] };
    const differs = ids.findIndex((id, t) => id !== old.ids[t]), same = differs < 0 ? T : differs;
    const chances = (x) => ids.map((_, t) => (t < same ? old.before[t] : softmax(x.row(t))));
    const before = chances(logits), after = changed ? chances(changedLogits) : before;
    const surprise = (p) => ids.map((id, t) => (t ? -Math.log(p[t - 1][id]) : NaN));
    const shown = (log, p) => {
      const probabilities = new Tensor([T, logits.shape[1]]);
      p.forEach((row, t) => probabilities.row(t).set(row));
      return { ...log, probabilities };
    };
    now = { all, ids, start, T, changed, model, log: changed ? changedLog : log, original: log, logits: changedLogits, originalLogits: logits,
            before, after, loss: surprise(after), lossBefore: surprise(before), labels: ids.map(symbol), characters: characters(all).slice(start) };
    now.gradients = state.gradients;
    now.shown = shown(now.log, after), now.was = changed ? { ...now, model: state.model, shown: shown(log, before) } : null;
    state.at = state.at === null || state.at >= T - 1 ? null : state.at;
  }
  const at = () => (state.at ?? now.T - 1);               // the chosen position
  const seen = () => (state.hover !== null && state.hover < now.T ? state.hover : at()); // what the pointer is on

  function characters(ids) { // for each byte, the character it begins, with its number of bytes
    const found = Array(ids.length).fill(null);
    for (let i = 0; i < ids.length; ) {
      const size = ids[i] < 0x80 ? 1 : ids[i] >= 0xf0 ? 4 : ids[i] >= 0xe0 ? 3 : 2;
      if (size > 1) found[i] = { text: decode(ids.slice(i, i + size)), size };
      i += size;
    }
    return found;
  }
  function last(count) { // the end of the text up to the chosen symbol, not from the middle of a character
    const t = at();
    let from = Math.max(0, t - count);
    while (from < t && now.ids[from] >= 0x80 && now.ids[from] < 0xc0) from++;
    return (from || now.start ? "…" : "") + decode(now.ids.slice(from, t + 1)).replaceAll("\n", "⏎");
  }
  const named = (t) => `${now.labels[t]} at ${t}`;

  const views = [];                     // functions that draw; view.panel is where
  const hidden = new Set();             // panels that are out of sight: nothing is drawn there until they are seen
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) isIntersecting ? hidden.delete(target) : hidden.add(target);
    update(false);
  }, { rootMargin: "200px" });
  let waiting = false, stale = true;
  function update(again = true) { // at most once a frame
    if (again) stale = true;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw_all(); });
  }
  function draw_all() {
    if (stale) compute();
    stale = false;
    for (const view of views) if (!hidden.has(view.panel) && !view.box?.hidden) view();
  }
  function draw_picture() { // at a key: map and prediction at once, the rest of the page in the next frame
    if (stale) compute();
    stale = false;
    for (const view of views) if (view.picture && !hidden.has(view.panel)) view();
    update(false);
  }
  function read(text) { state.text = text, state.ids = null, state.at = null, stale = true; }
  function choose(t) { state.at = t >= now.T - 1 ? null : t; state.hover = null; update(false); }

  // ---- Bars of probabilities ----

  function bars(parent, p, other = null, { count = 8, marked = null } = {}) {
    const score = other ? p.map((a, id) => Math.max(a, other[id])) : p;
    const order = [...p.keys()].sort((a, b) => score[b] - score[a]).slice(0, count);
    if (marked !== null && !order.includes(marked)) order[count - 1] = marked;
    children(parent, order.length, () => el("li", {},
      el("code"), el("span", { class: "pg-track", "aria-hidden": "true" }, el("i"), el("b")), el("span", { class: "pg-share" })))
      .forEach((row, place) => {
        const id = order[place], [label, track, share] = row.children;
        put(label, symbol(id));
        row.classList.toggle("pg-marked", id === marked);
        track.classList.toggle("pg-two", Boolean(other));
        track.firstChild.style.width = `${100 * p[id]}%`;
        track.lastChild.style.width = `${100 * (other ? other[id] : 0)}%`;
        put(share, other ? `${percent(p[id])}, was ${percent(other[id])}` : percent(p[id]) + (id === marked ? " ← drawn" : ""));
      });
  }
  const best = (p) => p.reduce((top, a, id) => (a > p[top] ? id : top), 0);

  // ---- Rows of symbols ----

  // A row of symbols of which one is chosen; arrow keys move. tint(t) -> 0..1 and a word for it.
  function symbols(label, tint, { chosen = at, kind = "" } = {}) {
    const row = el("div", { class: "pg-symbols " + kind, role: "radiogroup", "aria-label": label });
    const index = (event) => [...row.children].indexOf(event.target.closest("button"));
    row.addEventListener("click", (event) => index(event) >= 0 && choose(index(event)));
    row.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch" && index(event) >= 0) { state.hover = index(event); update(false); } });
    row.addEventListener("pointerleave", () => { state.hover = null; update(false); });
    row.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -1e9, End: 1e9 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(clamp(chosen() + step, 0, now.T - 1));
      row.children[at()].focus();
    });
    views.push(() => row.classList.toggle("pg-tall", now.characters.some(Boolean)));
    const drawn = new WeakMap();           // button -> what it shows: most keys change one symbol
    views.push(() => children(row, now.T, () => el("button", { type: "button", role: "radio" }, el("span"), el("small"))).forEach((button, t) => {
      const [amount, word] = tint(t), character = now.characters[t], on = t === chosen(), label = now.labels[t];
      const shows = `${label} ${character?.text} ${word} ${on} ${t}`;
      if (drawn.get(button) === shows) return;
      drawn.set(button, shows);
      put(button.firstChild, label.replace("\\x", ""));
      put(button.lastChild, character ? character.text : "");
      button.className = (now.ids[t] > 127 || label.startsWith("\\x") ? "pg-byte" : "") + (now.ids[t] >= 0x80 && now.ids[t] < 0xc0 ? " pg-inside" : "");
      button.style.setProperty("--amount", `${Math.round(50 * clamp(amount, 0, 1))}%`);
      button.setAttribute("aria-checked", on);
      button.tabIndex = on ? 0 : -1;
      button.title = `${t}: ${label}${character ? ` (first byte of ${character.text})` : ""}, ${word}`;
      button.setAttribute("aria-label", button.title);
    }));
    return row;
  }

  // ---- Panel: sentence, surprise, prediction ----

  const examples = ["It is not a list", "the q", "if x is not None:\n    return ", "A naïve 漢字 🙂", "See section Calls in the manual of the language: a call calls a callable object"];
  let started = false;

  function sentence(panel) {
    const box = el("textarea", { rows: 1, id: "pg-text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": "pg-window" });
    box.value = state.text;
    box.addEventListener("input", () => { read(box.value); draw_picture(); });
    const tries = el("p", { class: "pg-try" }, "Or try: ", ...examples.map((text) =>
      el("button", { type: "button", class: "pg-chip", onclick: () => { read(text); update(); } }, text.length > 24 ? text.slice(0, 22).replace("\n", " ") + "…" : text)));
    const note = el("p", { class: "pg-note", id: "pg-window" });
    const strip = symbols("The symbols; choose one to see what the model expects after it",
      (t) => [now.loss[t] / 8, t ? `surprise ${now.loss[t].toFixed(2)} nats` : "nothing before it, so no prediction"], { kind: "pg-surprise" });
    const scale = el("p", { class: "pg-scale" }, "colour: how much each symbol surprised the model, from 0 ", el("i", { "aria-hidden": "true" }), " to 8 nats (the nat measures surprise: −ln of the probability, so 0 for a symbol that was certain)");
    const reading = el("p", { class: "pg-reading" }), title = el("h3", { class: "pg-title" }), list = el("ol", { class: "pg-bars" });
    const live = el("p", { class: "pg-hidden", "aria-live": "polite" });
    const mapped = /map/.test(panel.dataset.panel); // the map has the prediction above it
    panel.append(el("label", { for: "pg-text", class: "pg-title" }, "Type a sentence"), box, tries,
      el("p", { class: "pg-note" }, "What the model reads. Choose a symbol to see what it expects after it."), strip, scale, reading, note, ...(mapped ? [] : [title, list]), live);
    let talk;
    views.push(() => {
      if (box.value !== state.text) box.value = state.text;
      const t = at(), s = seen(), cut = now.start;
      put(note, !now.T ? "" : (cut ? `The text has ${now.all.length} symbols; the model reads the last ${state.model.config.context} of them (the context) and never sees the rest. ` : "")
        + (now.all.some((id) => id > 127) ? "A symbol is a byte: characters beyond ASCII are several of them. " : "")
        + (now.changed ? "The model is changed: colours and prediction show what it does now. " : "")
        + (state.ids ? `The model has drawn ${now.all.length - encode(state.text).length} symbols of these (Generate).` : ""));
      scale.hidden = now.T < 2;
      if (!now.T) {
        put(reading, ""), put(title, "Nothing to read, so no prediction. Type something."), put(live, "No prediction."), list.replaceChildren();
        return;
      }
      put(reading, s === 0 ? `${named(0)}: the first symbol, nothing predicted it.`
        : `${named(s)}: the model gave it ${percent(Math.exp(-now.loss[s]))}, a surprise of ${now.loss[s].toFixed(2)} nats`
          + (now.changed ? ` (before the change ${now.lossBefore[s].toFixed(2)}).` : "."));
      if (!mapped) put(title, `What comes after “${last(15)}”?`), bars(list, now.after[t], now.changed ? now.before[t] : null);
      clearTimeout(talk);
      const top = best(now.after[t]);
      const words = `Most likely after ${named(t)}: ${symbol(top)}, ${percent(now.after[t][top])}.`;
      talk = setTimeout(() => put(live, words), started ? 500 : 0);
      started = true;
    });
  }

  // ---- Panel: watch it learn ----

  function learn(panel) {
    let moments = null;
    const slider = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "moment of the training", disabled: true });
    const words = el("p", { class: "pg-reading", "aria-live": "polite" }, "Some four megabytes, loaded when you ask for them.");
    let timer = null;
    const stop = () => { clearTimeout(timer); timer = null; put(play, "Play"); };
    panel.addEventListener("closed", stop), app.halts.push(stop);
    const show = (n) => {
      slider.value = n;
      app.halt?.();                     // what trains in the page
      state.model = moments[n].model, state.moment = moments[n].step === null ? "" : `weights after step ${moments[n].step}`;
      update();
    };
    const advance = () => {
      const n = Number(slider.value) + 1;
      if (n >= moments.length) return stop();
      show(n), timer = setTimeout(advance, 500);
    };
    const play = el("button", { type: "button", class: "pg-button", hidden: true, onclick: () => {
      if (timer) return stop();
      put(play, "Pause"), show(slider.value === slider.max ? 0 : Number(slider.value)), timer = setTimeout(advance, 500);
    } }, "Play");
    const start = el("button", { type: "button", class: "pg-button", onclick: async () => {
      start.disabled = true, put(words, "Loading …");
      try {
        moments = await checkpoints();
      } catch (problem) { put(words, `The training cannot be shown: ${problem.message}.`); start.disabled = false; return; }
      start.hidden = true, play.hidden = slider.disabled = false, slider.max = moments.length - 1;
      show(0), slider.focus();
    } }, "Load the training run");
    slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
    panel.append(el("p", { class: "pg-slide" }, start, play, slider), words);
    window.playground.moments = () => moments;
    views.push(() => {
      if (!moments) return;
      const n = moments.findIndex(({ model }) => model === state.model);
      if (n < 0) { put(words, "The map shows a checkpoint of your own."); return; }
      const { step, validation } = moments[n];
      slider.value = n;
      const mean = now.T > 1 ? `; mean surprise over your sentence ${(now.loss.slice(1).reduce((a, b) => a + b, 0) / (now.T - 1)).toFixed(2)}` : "";
      const when = step === null ? "The end of the run, the shipped weights" : step ? `After step ${step}` : "Before the first step";
      slider.setAttribute("aria-valuetext", when);
      put(words, `${when}. Validation loss ${validation.toFixed(2)} nats per symbol${mean}.`);
    });
  }

  // ---- Panel: generate ----

  function generate(panel) {
    const run = { ids: null, prompt: null, steps: [], random: null, timer: null };
    const field = (label, attributes) => { const input = el("input", { "aria-label": label, ...attributes }); return [el("label", { class: "pg-field" }, el("span", {}, label), input), input]; };
    const [heatField, heat] = field("temperature", { type: "range", min: 0, max: 2, step: 0.1, value: 0.8, id: "pg-temperature" });
    const heatValue = el("output", {}, "0.8");
    heatField.append(heatValue);
    heat.addEventListener("input", () => { put(heatValue, Number(heat.value) === 0 ? "0: always the likeliest" : heat.value); update(false); });
    const [topField, top] = field("top-k", { type: "number", min: 1, placeholder: "all", id: "pg-topk", inputmode: "numeric" });
    const [seedField, seed] = field("seed", { type: "number", value: 0, step: 1, id: "pg-seed", inputmode: "numeric" });
    top.addEventListener("input", () => update(false)), seed.addEventListener("change", () => restart());
    const topK = () => (Number(top.value) >= 1 ? Math.floor(Number(top.value)) : null);
    const out = el("div", { class: "pg-text", role: "log", "aria-live": "off", "aria-label": "The text so far", tabindex: 0 });
    const list = el("ol", { class: "pg-bars" }), title = el("h3", { class: "pg-title" });
    const button = (label, action) => el("button", { type: "button", class: "pg-button", onclick: action }, label);
    const one = button("One symbol", () => { pause(); step(); });
    const go = button("Run", () => (run.timer ? pause() : (tick())));
    const again = button("Start over", () => restart());
    const use = button("Use as sentence", () => { pause(); read(decode(run.ids)); update(); });
    const live = el("p", { class: "pg-hidden", "aria-live": "polite" });
    panel.append(el("p", { class: "pg-fields" }, heatField, topField, seedField), el("p", { class: "pg-actions" }, one, go, again, use), out, title, list, live,
      el("p", { class: "pg-note" }, "With temperature 0 this is, symbol for symbol, what Python writes. With more, the random numbers are others than PyTorch's, so the same seed gives the same text here, but another text there."));

    function restart() {
      pause();
      run.prompt = state.text, run.ids = encode(state.text), run.steps = [], run.random = randomNumbers(Number(seed.value));
      if (state.ids) state.ids = null, state.at = null, update(); else update(false);
    }
    function pause() { clearTimeout(run.timer); run.timer = null; put(go, "Run"); }
    panel.addEventListener("closed", pause), app.halts.push(pause);
    function tick() {
      if (run.prompt !== state.text) return restart(); // another sentence was typed meanwhile
      put(go, "Pause"), step();
      run.timer = run.ids.length ? setTimeout(tick, 80) : null;
    }
    const next = () => distribution(now.logits.row(now.T - 1), Number(heat.value), topK()); // what would be drawn from now
    function step() {
      if (!run.ids.length) return;
      if (stale) compute(), stale = false; // a change, or a symbol, of a moment ago
      const probabilities = next(), drawn = draw(probabilities, run.random);
      run.steps.push({ drawn, probabilities });
      run.ids.push(drawn);
      state.ids = run.ids, state.at = null;   // the map gets a row
      put(live, `drawn: ${symbol(drawn)}, ${percent(probabilities[drawn])}`);
      update();
    }
    window.playground.generation = run;
    views.push(() => {
      if (run.prompt !== state.text || (run.steps.length && !state.ids)) restart();
      const last = run.steps.at(-1), begin = run.ids.length - run.steps.length;
      for (const node of [one, go]) node.disabled = !run.ids.length;
      again.disabled = use.disabled = !run.steps.length;
      out.replaceChildren(decode(run.ids.slice(0, begin)), el("mark", {}, decode(run.ids.slice(begin))));
      if (run.steps.length) out.scrollTop = out.scrollHeight;
      if (!run.ids.length) { put(title, "Nothing to continue. Type a sentence above."); list.replaceChildren(); return; }
      put(title, last ? `Step ${run.steps.length}: drawn from` : "The first symbol will be drawn from");
      const p = last?.probabilities ?? next();
      bars(list, p, null, { marked: last?.drawn ?? null });
    });
    run.prompt = null;
    return run;
  }

  // ---- Start ----

  const app = { halts: [], state, views, update, choose, at, seen, best, named, last, percent, el, put, children, colour, here, changes, untouched, draw: draw_all,
    get now() { return now; }, shipped };
  window.playground = { state, changes, get now() { return now; }, shipped, draw: draw_all };
  document.body.classList.toggle("pg-page", panels.some((panel) => panel.dataset.own !== undefined));
  const makers = { sentence, map: (panel) => mapPanel(app, panel, tools(panel)), generate, learn };
  const train = { "Train it on your text": (box) => trainer(app, box) };
  const tools = (panel) => (panel.dataset.own !== undefined ? { "Generate": generate, "Watch it learn": learn, ...train } : panel.dataset.train !== undefined ? train : {});
  compute(), stale = false;
  for (const panel of panels) {
    if (panel.dataset.title) panel.append(el("p", { class: "pg-heading" }, el("strong", {}, panel.dataset.title), " ", el("a", { href: new URL("../../playground/", here) }, "More in the playground")));
    for (const name of panel.dataset.panel.split(" ")) {
      const before = views.length;
      makers[name](panel);
      for (const view of views.slice(before)) view.panel = panel;
    }
  }
  draw_all();
  for (const panel of panels) panel.dataset.ready = "", sight.observe(panel);
})();
