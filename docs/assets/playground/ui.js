// The playground: shows what model.js computes, and lets the reader change it. One state for all the
// panels of a page; a panel is a <div class="tinyllm-playground" data-panel="sentence attention …">.
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
  const percent = (p) => (p >= 0.0995 ? (100 * p).toFixed(0) : p >= 0.00095 ? (100 * p).toFixed(1) : p > 0 ? "<0.1" : "0") + " %";
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

  const { n_layers: L, n_heads: H, d_model: C, context, vocab_size: V } = shipped.config, D = C / H;
  const layers = [...Array(L).keys()], heads = [...Array(H).keys()];

  const untouched = () => ({ heads: new Set(), ffns: new Set(), positions: false, mask: false, scale: layers.map(() => 1), cells: new Map() });
  const given = panels.map((panel) => panel.dataset.text).find(Boolean);
  const state = {
    model: shipped, moment: "", text: given ?? "It is not a list", at: null, // at: the chosen position in the window; null is the last
    layer: 0, head: 0, cell: null, hover: null,                  // cell: [i, j] of the large map
    off: untouched(), columns: {},                               // columns: the chosen number, by axis
  };

  function changes(off = state.off, model = state.model) { // what is switched off, as functions for forward()
    const result = {}, zero = (x) => x.map(() => 0);
    for (const layer of layers) {
      const block = `blocks.${layer}`, attention = block + ".attention";
      const dead = heads.filter((head) => off.heads.has(`${layer}.${head}`));
      if (dead.length) result[attention + ".mix"] = (mix) => {
        const [, T, D] = mix.shape;
        return mix.map((a, at) => (dead.includes(Math.floor(at / (T * D))) ? 0 : a));
      };
      if (off.ffns.has(`${layer}`)) result[block + ".ffn.down"] = zero;
      if (off.mask) result.mask = zero;
      if (off.scale[layer] !== 1) result[block + ".norm2"] = (x) => x.map((a) => a * off.scale[layer]);
      const cells = [...off.cells].map(([at, value]) => [...at.split(".").map(Number), value]).filter(([at]) => at === layer);
      if (cells.length) result[attention + ".weights"] = (weights) => {
        const out = weights.map((a) => a);
        for (const [, head, i, j, value] of cells) if (Math.max(i, j) < out.shape[1]) out.row(head, i)[j] = value;
        return out;
      };
    }
    if (off.positions) result.positions = (x) => x.map((a, i) => a - model.table.data[i]);
    return result;
  }

  // What the panels draw: computed anew whenever text, model or changes change.
  let now;
  function compute() {
    const all = encode(state.text), start = Math.max(0, all.length - context), ids = all.slice(start);
    const T = ids.length, log = {}, changedLog = {}, change = changes(), changed = Object.keys(change).length > 0;
    const begin = performance.now();
    const logits = state.model.forward(ids, {}, log);
    const ms = performance.now() - begin;
    const changedLogits = changed ? state.model.forward(ids, change, changedLog) : logits;
    const chances = (x) => ids.map((_, t) => softmax(x.row(t)));
    const before = chances(logits), after = changed ? chances(changedLogits) : before;
    const surprise = (p) => ids.map((id, t) => (t ? -Math.log(p[t - 1][id]) : NaN));
    now = { all, ids, start, T, changed, ms, log: changed ? changedLog : log, original: log, logits: changedLogits, originalLogits: logits,
            before, after, loss: surprise(after), lossBefore: surprise(before), labels: ids.map(symbol), characters: characters(all).slice(start) };
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
  const named = (t) => `${now.labels[t]} at ${t}`;

  const views = [];   // functions that draw
  let waiting = false;
  function update(again = true) { // at most once a frame
    if (again) stale = true;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw_all(); });
  }
  let stale = true;
  function draw_all() {
    if (stale) compute();
    stale = false;
    for (const view of views) view();
  }
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
    views.push(() => children(row, now.T, () => el("button", { type: "button", role: "radio" }, el("span"), el("small"))).forEach((button, t) => {
      const [amount, word] = tint(t), character = now.characters[t], on = t === chosen();
      put(button.firstChild, now.labels[t].replace("\\x", ""));
      put(button.lastChild, character ? character.text : "");
      button.classList.toggle("pg-byte", now.ids[t] > 127 || now.labels[t].startsWith("\\x"));
      button.classList.toggle("pg-inside", now.ids[t] >= 0x80 && now.ids[t] < 0xc0);
      button.style.setProperty("--amount", `${Math.round(50 * clamp(amount, 0, 1))}%`);
      button.setAttribute("aria-checked", on);
      button.tabIndex = on ? 0 : -1;
      button.title = `${t}: ${now.labels[t]}${character ? ` (first byte of ${character.text})` : ""}, ${word}`;
      button.setAttribute("aria-label", button.title);
    }));
    return row;
  }

  // ---- Panel: sentence, surprise, prediction ----

  const examples = ["It is not a list", "the q", "if x is not None:\n    return ", "A naïve 漢字 🙂", "See section Calls in the manual of the language: a call calls a callable object"];
  let started = false;

  function sentence(panel) {
    const box = el("textarea", { rows: 2, id: "pg-text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": "pg-window" });
    box.value = state.text;
    box.addEventListener("input", () => { state.text = box.value; state.at = null; update(); });
    const tries = el("p", { class: "pg-try" }, "Or try: ", ...examples.map((text) =>
      el("button", { type: "button", class: "pg-chip", onclick: () => { state.text = text; state.at = null; update(); } }, text.length > 24 ? text.slice(0, 22).replace("\n", " ") + "…" : text)));
    const note = el("p", { class: "pg-note", id: "pg-window" });
    const strip = symbols("The symbols; choose one to see what the model expects after it",
      (t) => [now.loss[t] / 8, t ? `surprise ${now.loss[t].toFixed(2)} nats` : "nothing before it, so no prediction"], { kind: "pg-surprise" });
    const scale = el("p", { class: "pg-scale" }, "colour: how much each symbol surprised the model, from 0 ", el("i", { "aria-hidden": "true" }), " to 8 nats (the nat measures surprise: −ln of the probability, so 0 for a symbol that was certain)");
    const reading = el("p", { class: "pg-reading" }), title = el("h3", { class: "pg-title" }), list = el("ol", { class: "pg-bars" });
    const live = el("p", { class: "pg-hidden", "aria-live": "polite" });
    panel.append(el("label", { for: "pg-text", class: "pg-title" }, "Type a sentence"), box, tries,
      el("p", { class: "pg-note" }, "What the model reads. Choose a symbol to see what it expects after it."), strip, scale, reading, note, title, list, live);
    let talk;
    views.push(() => {
      if (box.value !== state.text) box.value = state.text;
      const t = at(), s = seen(), cut = now.start;
      put(note, !now.T ? "" : (cut ? `The text has ${now.all.length} symbols; the model reads the last ${context} of them (the context) and never sees the rest. ` : "")
        + (now.all.length !== [...state.text].length ? "A symbol is a byte: characters beyond ASCII are several of them. " : "")
        + (now.changed ? "The model is changed: the strip and the bars show what it does now." : ""));
      scale.hidden = now.T < 2;
      if (!now.T) {
        put(reading, ""), put(title, "Nothing to read, so no prediction. Type something."), put(live, "No prediction."), list.replaceChildren();
        return;
      }
      put(reading, s === 0 ? `${named(0)}: the first symbol, nothing predicted it.`
        : `${named(s)}: the model gave it ${percent(Math.exp(-now.loss[s]))}, a surprise of ${now.loss[s].toFixed(2)} nats`
          + (now.changed ? ` (before the change ${now.lossBefore[s].toFixed(2)}).` : "."));
      let from = Math.max(0, t - 15);
      while (from < t && now.ids[from] >= 0x80 && now.ids[from] < 0xc0) from++; // not from the middle of a character
      put(title, `What comes after “${from || cut ? "…" : ""}${decode(now.ids.slice(from, t + 1)).replaceAll("\n", "⏎")}”?`);
      bars(list, now.after[t], now.changed ? now.before[t] : null);
      clearTimeout(talk);
      const top = best(now.after[t]);
      const words = `Most likely after ${named(t)}: ${symbol(top)}, ${percent(now.after[t][top])}.`;
      talk = setTimeout(() => put(live, words), started ? 500 : 0);
      started = true;
    });
  }

  // ---- Panel: attention ----

  function sharp(canvas, width, height) { // a canvas in device pixels; returns its context in CSS pixels
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio), canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    return g;
  }
  function map(g, weights, head, x, y, size) {
    const T = now.T, cell = size / T;
    g.fillStyle = colour("--pg-look");
    for (let i = 0; i < T; i++) {
      weights.row(head, i).forEach((weight, j) => {
        g.globalAlpha = clamp(weight, 0, 1);
        if (weight > 0.004) g.fillRect(x + j * cell, y + i * cell, cell, cell);
      });
    }
    g.globalAlpha = 1;
  }
  const A = (layer, name) => now.log[`blocks.${layer}.attention.${name}`];

  function pickers(withHead = true) { // choose layer and head; shared by all panels
    const group = (label, count, key) => {
      const row = el("span", { class: "pg-group", role: "group", "aria-label": label }, label + " ",
        ...[...Array(count).keys()].map((value) => el("button", { type: "button", onclick: () => { state[key] = value; state.cell = null; update(false); } }, `${value}`)));
      views.push(() => row.querySelectorAll("button").forEach((button, value) => button.setAttribute("aria-pressed", state[key] === value)));
      return row;
    };
    return el("p", { class: "pg-pickers" }, group("layer", L, "layer"), withHead ? group("head", H, "head") : "");
  }

  function small_maps() { // every head, to be looked at and chosen
    const grid = el("div", { class: "pg-heads" });
    for (const layer of layers) {
      for (const head of heads) {
        grid.append(el("button", { type: "button", "data-head": `${layer}.${head}`, onclick: () => { state.layer = layer; state.head = head; state.cell = null; update(false); } },
          el("canvas"), el("span", {}, `layer ${layer} · head ${head}`)));
      }
    }
    views.push(() => grid.querySelectorAll("button").forEach((button) => {
      const [layer, head] = button.dataset.head.split(".").map(Number), canvas = button.firstChild, width = canvas.clientWidth || 100, s = seen();
      button.setAttribute("aria-pressed", layer === state.layer && head === state.head);
      const g = sharp(canvas, width, width);
      if (!now.T) return;
      map(g, A(layer, "weights"), head, 0, 0, width);
      g.strokeStyle = colour("--pg-ink"), g.globalAlpha = 0.5;
      g.strokeRect(0.5, s * width / now.T, width - 1, width / now.T);
      const row = A(layer, "weights").row(head, s), j = best(row);
      button.setAttribute("aria-label", `layer ${layer}, head ${head}: ${named(s)} looks most at ${named(j)}, weight ${row[j].toFixed(2)}`);
    }));
    return grid;
  }

  function attention(panel) {
    const grid = small_maps();
    const large = el("canvas", { class: "pg-large", tabindex: 0, role: "application" });
    const reading = el("p", { class: "pg-reading", "aria-live": "polite" }), title = el("h3", { class: "pg-title" });
    const weight = (i, j) => A(state.layer, "weights").row(state.head, i)[j];
    const word = (w) => `weight ${w.toFixed(2)}`;
    const to = symbols("What the chosen symbol looks at", (j) => [2 * weight(seen(), j), word(weight(seen(), j))], { kind: "pg-looks" });
    const from = symbols("What looks at the chosen symbol", (i) => [2 * weight(i, seen()), word(weight(i, seen()))], { kind: "pg-looked" });
    const toTitle = el("p", { class: "pg-line" }), fromTitle = el("p", { class: "pg-line" });
    panel.append(el("p", { class: "pg-note" }, "Choose a head to enlarge it. Point at a symbol, tap it or use the arrow keys."),
      el("div", { class: "pg-columns" }, el("div", {}, grid, title, toTitle, to, fromTitle, from), el("div", {}, el("div", { class: "pg-map" }, large), reading)));

    let margin = 0, size = 0;
    const cellAt = (event) => {
      const box = large.getBoundingClientRect();
      return [event.clientY - box.top - margin, event.clientX - box.left - margin].map((a) => clamp(Math.floor(a / size * now.T), 0, now.T - 1));
    };
    const point = (cell) => { state.cell = cell; update(false); };
    large.addEventListener("pointermove", (event) => now.T && event.pointerType !== "touch" && !state.pinned && point(cellAt(event)));
    large.addEventListener("pointerleave", () => { if (!state.pinned) point(null); });
    large.addEventListener("click", (event) => { if (!now.T) return; const cell = cellAt(event); state.pinned = !(state.pinned && `${cell}` === `${state.cell}`); point(cell); });
    large.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step || !now.T) return;
      event.preventDefault(), state.pinned = true;
      point((state.cell ?? [at(), at()]).map((a, axis) => clamp(a + step[axis], 0, now.T - 1)));
    });

    views.push(() => {
      const T = now.T, s = seen();
      for (const node of [title, toTitle, fromTitle, large.parentNode]) node.hidden = !T;
      if (!T) { put(reading, "Nothing to look at yet."); return; }
      put(title, `Layer ${state.layer}, head ${state.head}`);
      put(toTitle, `${named(s)} looks at`), put(fromTitle, `${named(s)} is looked at by`);
      const width = large.parentNode.clientWidth || 300, font = clamp((width - 20) / T * 0.8, 10, 13);
      margin = 34, size = Math.min(width - margin, 560);
      large.style.width = `${size + margin}px`;
      const g = sharp(large, size + margin, size + margin), cell = size / T;
      map(g, A(state.layer, "weights"), state.head, margin, margin, size);
      const ink = colour("--pg-ink");
      g.fillStyle = ink, g.font = `${font}px ${colour("--md-code-font-family") || "monospace"}`, g.textBaseline = "middle";
      if (state.cell && Math.max(...state.cell) >= T) state.cell = null;
      const roomy = cell >= 9, [row, column] = state.cell ?? [s, s]; // else only the labels of one cell
      now.labels.forEach((label, t) => {
        const middle = margin + (t + 0.5) * cell;
        g.textAlign = "right";
        if (roomy || t === row) g.fillText(label, margin - 4, middle);
        g.save(), g.translate(middle, margin - 4), g.rotate(-Math.PI / 2), g.textAlign = "left";
        if (roomy || t === column) g.fillText(label, 0, 0);
        g.restore();
      });
      g.strokeStyle = ink, g.globalAlpha = 0.25, g.strokeRect(margin, margin, size, size);
      g.globalAlpha = 0.6, g.strokeRect(margin, margin + s * cell, size, cell), g.globalAlpha = 1;
      if (state.cell) {
        const [i, j] = state.cell;
        g.lineWidth = 2, g.strokeStyle = colour("--pg-by"), g.strokeRect(margin + j * cell, margin + i * cell, cell, cell);
        put(reading, `${named(i)} looks at ${named(j)}: ${j > i && !state.off.mask ? "masked, it lies in the future" : `score ${number(A(state.layer, "scores").row(state.head, i)[j])}, weight ${weight(i, j).toFixed(4)}${state.off.cells.has(`${state.layer}.${state.head}.${i}.${j}`) ? " (set by you)" : ""}`}`);
      } else put(reading, `Rows look, columns are looked at. Point at a cell for its value; click to keep it.`);
      large.setAttribute("aria-label", `Attention weights of layer ${state.layer}, head ${state.head}; arrow keys move from cell to cell. ${reading.textContent}`);
    });
  }

  // ---- Panel: change the model ----

  function change(panel) {
    const toggle = (label, on, flip) => {
      const button = el("button", { type: "button", class: "pg-toggle", onclick: () => { flip(); update(); } }, label);
      views.push(() => { button.setAttribute("aria-pressed", !on()); button.title = on() ? "switched off: click to switch on" : "on: click to switch off"; });
      return button;
    };
    const set = (name, key) => toggle(name, () => state.off[name.startsWith("FFN") ? "ffns" : "heads"].has(key), () => {
      const off = state.off[name.startsWith("FFN") ? "ffns" : "heads"];
      off.has(key) ? off.delete(key) : off.add(key);
    });
    const flag = (name, key) => toggle(name, () => state.off[key], () => { state.off[key] = !state.off[key]; });
    const slider = (label, max, step, get, put_value) => {
      const input = el("input", { type: "range", min: 0, max, step, "aria-label": label }), value = el("output");
      input.addEventListener("input", () => { put_value(Number(input.value)); update(); });
      views.push(() => { const a = get(); input.disabled = a === null; if (a !== null && Number(input.value) !== a) input.value = a; put(value, a === null ? "" : a.toFixed(2)); });
      return [input, value];
    };
    const rows = layers.map((layer) => el("div", { class: "pg-row" }, el("span", {}, `layer ${layer}`), el("span", { class: "pg-buttons" },
      ...heads.map((head) => set(`head ${head}`, `${layer}.${head}`)), set("FFN", `${layer}`))));
    const scales = layers.map((layer) => el("label", { class: "pg-row" }, el("span", {}, `after layer ${layer} ×`), el("span", { class: "pg-slide" },
      ...slider(`scale of the residual stream after layer ${layer}`, 3, 0.05, () => state.off.scale[layer], (a) => { state.off.scale[layer] = a; }))));

    // One attention weight: of the chosen layer and head, from one position to another.
    const pick = (label, get, choose_value) => {
      const select = el("select", { "aria-label": label });
      select.addEventListener("change", () => { choose_value(Number(select.value)); state.pinned = true; update(false); });
      views.push(() => {
        children(select, now.T, () => el("option")).forEach((option, t) => { option.value = t; put(option, named(t)); });
        if (now.T) select.value = get();
      });
      return select;
    };
    const cell = () => (now.T ? state.cell ?? [at(), Math.max(0, at() - 1)] : null);
    const key = () => `${state.layer}.${state.head}.${cell().join(".")}`;
    const from = pick("the symbol that looks", () => cell()[0], (i) => { state.cell = [i, cell()[1]]; });
    const to = pick("the symbol that is looked at", () => cell()[1], (j) => { state.cell = [cell()[0], j]; });
    const one = el("fieldset", {}, el("legend", {}, "Set one attention weight"), pickers(),
      el("p", {}, from, " looks at ", to), el("p", { class: "pg-slide" }, ...slider("attention weight", 1, 0.01,
        () => (now.T ? Math.round(A(state.layer, "weights").row(state.head, cell()[0])[cell()[1]] * 100) / 100 : null),
        (value) => { state.off.cells.set(key(), value); state.cell = cell(); state.pinned = true; choose(state.cell[0]); }))); // the change is seen at the symbol that looks
    const reset = el("button", { type: "button", class: "pg-button", onclick: () => { state.off = untouched(); state.cell = null; state.pinned = false; update(); } }, "Reset all changes");
    const verdict = el("p", { class: "pg-reading", "aria-live": "polite" }), list = el("ol", { class: "pg-bars" }), title = el("h3", { class: "pg-title" });
    const strip = symbols("The surprise of each symbol, with the changes; choose one to compare its prediction",
      (t) => [now.loss[t] / 8, t ? `surprise ${now.loss[t].toFixed(2)} nats, before the change ${now.lossBefore[t].toFixed(2)}` : "nothing before it"], { kind: "pg-surprise" });
    const only = panel.dataset.only; // "mask", in the chapter that is about it
    const switches = el("fieldset", {}, el("legend", {}, "Click to switch off"), ...(only ? [] : rows),
      el("div", { class: "pg-row" }, el("span", {}, "everywhere"), el("span", { class: "pg-buttons" }, only ? "" : flag("positions", "positions"), flag("mask", "mask"))));
    panel.append(el("div", { class: "pg-columns pg-result-first" },
      el("div", {}, switches, ...(only ? [] : [el("fieldset", {}, el("legend", {}, "Scale the residual stream: the vectors that leave a layer, × a number"), ...scales), one])),
      el("div", {}, title, list, verdict, strip, reset)));
    views.push(() => {
      reset.disabled = !now.changed;
      if (!now.T) { list.replaceChildren(); put(title, "No prediction to compare."); put(verdict, ""); return; }
      const t = at();
      put(title, now.changed ? `After ${named(t)}: changed, and as it was` : `After ${named(t)}, unchanged`);
      bars(list, now.after[t], now.changed ? now.before[t] : null);
      const mean = (loss) => loss.slice(1).reduce((a, b) => a + b, 0) / (now.T - 1), top = best(now.after[t]), was = best(now.before[t]);
      put(verdict, !now.changed ? "Nothing is changed yet."
        : `First choice: ${symbol(was)} ${percent(now.before[t][was])} before, ${symbol(top)} ${percent(now.after[t][top])} now.`
          + (now.T > 1 ? ` Mean surprise over the sentence: ${mean(now.lossBefore).toFixed(2)} nats before, ${mean(now.loss).toFixed(2)} now.` : ""));
    });
  }

  // What is not as it was shipped, wherever on the page the reader is.
  function reminder() {
    const text = el("span"), bar = el("div", { class: "tinyllm-playground pg-reminder", role: "status", hidden: true, "data-ready": "" }, text,
      el("button", { type: "button", class: "pg-button", onclick: () => { state.off = untouched(); state.model = shipped; state.moment = ""; state.cell = null; state.pinned = false; update(); } }, "Undo"));
    document.querySelector("article").append(bar);
    views.push(() => {
      const off = state.off, parts = [state.moment, ...[...off.heads].sort().map((key) => `head ${key} off`), ...[...off.ffns].sort().map((key) => `FFN ${key} off`),
        off.positions && "positions off", off.mask && "mask off", ...off.scale.map((a, layer) => a !== 1 && `stream after layer ${layer} × ${a}`), off.cells.size && `${off.cells.size} attention weight${off.cells.size > 1 ? "s" : ""} set`].filter(Boolean);
      bar.hidden = !parts.length;
      put(text, "Not the model as shipped: " + parts.join(", "));
    });
  }

  // ---- Panel: watch it learn ----

  function learn(panel) {
    let moments = null;
    const slider = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "moment of the training", disabled: true });
    const words = el("p", { class: "pg-reading", "aria-live": "polite" }, "Some four megabytes, loaded when you ask for them.");
    const list = el("ol", { class: "pg-bars" }), title = el("h3", { class: "pg-title" });
    const strip = symbols("The surprise of each symbol at this moment of the training", (t) => [now.loss[t] / 8, t ? `surprise ${now.loss[t].toFixed(2)} nats` : "nothing before it"], { kind: "pg-surprise" });
    const maps = small_maps(), body = el("div", { hidden: true });
    let timer = null;
    const stop = () => { clearTimeout(timer); timer = null; put(play, "Play"); };
    const show = (n) => {
      slider.value = n;
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
      start.hidden = true, play.hidden = body.hidden = slider.disabled = false, slider.max = moments.length - 1;
      show(0), slider.focus();
    } }, "Load the training run");
    slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
    body.append(title, list, strip, maps);
    panel.append(el("p", { class: "pg-slide" }, start, play, slider), words, body);
    window.playground.moments = () => moments;
    views.push(() => {
      if (!moments) return;
      const n = moments.findIndex(({ model }) => model === state.model), { step, validation } = moments[n];
      slider.value = n;
      const mean = now.T > 1 ? `; mean surprise over your sentence ${(now.loss.slice(1).reduce((a, b) => a + b, 0) / (now.T - 1)).toFixed(2)}` : "";
      const when = step === null ? "The end of the run, the shipped weights" : step ? `After step ${step}` : "Before the first step";
      slider.setAttribute("aria-valuetext", when);
      put(words, `${when}. Validation loss ${validation.toFixed(2)} nats per symbol${mean}.`);
      if (!now.T) { put(title, "Nothing to predict."), list.replaceChildren(); return; }
      put(title, `After ${named(at())}`), bars(list, now.after[at()], null, { count: 6 });
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
    const [topField, top] = field("top-k", { type: "number", min: 1, max: V, placeholder: "all", id: "pg-topk", inputmode: "numeric" });
    const [seedField, seed] = field("seed", { type: "number", value: 0, step: 1, id: "pg-seed", inputmode: "numeric" });
    top.addEventListener("input", () => update(false)), seed.addEventListener("change", () => restart());
    const topK = () => (Number(top.value) >= 1 ? Math.floor(Number(top.value)) : null);
    const out = el("div", { class: "pg-text", role: "log", "aria-live": "off", "aria-label": "The text so far", tabindex: 0 });
    const list = el("ol", { class: "pg-bars" }), title = el("h3", { class: "pg-title" });
    const button = (label, action) => el("button", { type: "button", class: "pg-button", onclick: action }, label);
    const one = button("One symbol", () => { pause(); step(); });
    const go = button("Run", () => (run.timer ? pause() : (tick())));
    const again = button("Start over", () => restart());
    const use = button("Use as sentence", () => { pause(); state.text = decode(run.ids); state.at = null; update(); });
    const live = el("p", { class: "pg-hidden", "aria-live": "polite" });
    panel.append(el("p", { class: "pg-fields" }, heatField, topField, seedField), el("p", { class: "pg-actions" }, one, go, again, use), out, title, list, live,
      el("p", { class: "pg-note" }, "With temperature 0 this is, symbol for symbol, what Python writes. With more, the random numbers are others than PyTorch's, so the same seed gives the same text here, but another text there."));

    function restart() { pause(); run.prompt = state.text; run.ids = encode(state.text); run.steps = []; run.random = randomNumbers(Number(seed.value)); update(false); }
    function pause() { clearTimeout(run.timer); run.timer = null; put(go, "Run"); }
    function tick() { put(go, "Pause"); step(); run.timer = run.ids.length ? setTimeout(tick, 80) : null; }
    function next() { // what would be drawn from now
      const ids = run.ids.slice(-context), logits = run.steps.length ? state.model.forward(ids, changes()) : now.logits;
      return distribution(logits.row(ids.length - 1), Number(heat.value), topK());
    }
    function step() {
      if (!run.ids.length) return;
      if (stale) draw_all(); // a change of a moment ago
      const probabilities = next(), drawn = draw(probabilities, run.random);
      run.steps.push({ drawn, probabilities });
      run.ids.push(drawn);
      put(live, `drawn: ${symbol(drawn)}, ${percent(probabilities[drawn])}`);
      update(false);
    }
    window.playground.generation = run;
    views.push(() => {
      if (run.prompt !== state.text) { restart(); waiting || update(false); }
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

  // ---- Panel: follow one number ----

  function walk(panel) {
    const parts = {}, terms = (pairs, count = 2) => pairs.map(([a, b]) => [a, b, a * b]).sort((p, q) => Math.abs(q[2]) - Math.abs(p[2])).slice(0, count)
      .map(([a, b]) => `${number(a)} · ${b < 0 ? `(${number(b)})` : number(b)}`).join(" + ") + (pairs.length > count ? ` + … (${pairs.length} products, the largest first)` : "");
    const dot = (x, name, o) => terms([...x].map((a, i) => [a, state.model.weights[name + ".weight"].row(o)[i]]));
    const plus = (a, b) => `${number(a)} ${b < 0 ? "−" : "+"} ${number(Math.abs(b))}`;

    const normed = (x, name, c) => { // LayerNorm of one number, in numbers
      const mean = x.reduce((sum, a) => sum + a, 0) / x.length, deviation = Math.sqrt(x.reduce((sum, a) => sum + (a - mean) ** 2, 0) / x.length + 1e-5);
      const bias = state.model.weights[name + ".bias"].data[c];
      return `(${plus(x[c], -mean)}) / ${number(deviation)} · ${number(state.model.weights[name + ".weight"].data[c])} ${bias < 0 ? "−" : "+"} ${number(Math.abs(bias))}: minus the mean, by the deviation, times a weight, plus a bias`;
    };

    // For each step: name in the trace, shape, this position's numbers, the axis they run along, and
    // where one of them comes from.
    const steps = {
      symbol: ({ t }) => ({ name: "ids", shape: `(T) = (${now.T})`, values: Float32Array.of(now.ids[t]), axis: "one", why: () => `${now.labels[t]} is byte ${now.ids[t]}` }),
      embedding: ({ t, get }) => ({ name: "embedding", values: get("embedding").row(t), axis: "C", why: (c) => `row ${now.ids[t]} of the table, column ${c}` }),
      positions: ({ t, get }) => ({ name: "positions", values: get("positions").row(t), axis: "C",
        why: (c) => state.off.positions ? "the positions are switched off: the embedding as it was"
          : `${plus(get("embedding").row(t)[c], state.model.table.row(t)[c])}, the ${c % 2 ? "cosine" : "sine"} of ${t} / 10000^(${c - (c % 2)}/${C})` }),
      input: ({ t, l, x, input }) => ({ name: input, values: x.row(t), axis: "C", why: () => (l ? `as it left layer ${l - 1}` : "embedding plus position") }),
      ...Object.fromEntries([["q", "query"], ["k", "key"], ["v", "value"]].map(([short, long]) => [short, ({ t, h, a, x, get }) => ({
        name: `${a}.${short}`, values: get(`${a}.${short}`).row(h, t), axis: "D", why: (d) => dot(x.row(t), `${a}.${long}`, h * D + d) })])),
      scores: ({ t, h, a, get }) => ({ name: a + ".scores", values: get(a + ".scores").row(h, t), axis: "T",
        why: (j) => `query of ${named(t)} · key of ${named(j)}, divided by √${D}: ${number(get(a + ".scores").row(h, t)[j] * Math.sqrt(D))} / ${number(Math.sqrt(D))}` }),
      mask: ({ t, get }) => ({ name: "mask", shape: `(T, T) = (${now.T}, ${now.T})`, values: get("mask").row(t), axis: "T",
        why: (j) => (state.off.mask ? "the mask is switched off" : `${named(j)} ${j <= t ? "is not in the future: 0" : "lies in the future: −∞"}`) }),
      weights: ({ t, h, a, get }) => {
        const masked = get(a + ".scores").row(h, t).map((s, j) => s + get("mask").row(t)[j]), top = Math.max(...masked);
        const sum = masked.reduce((total, s) => total + Math.exp(s - top), 0);
        return { name: a + ".weights", values: get(a + ".weights").row(h, t), axis: "T", why: (j) => state.off.cells.has(`${a.split(".")[1]}.${h}.${t}.${j}`) ? "set by you"
          : `e^(${plus(masked[j], -top)}) / ${number(sum)}, the share of ${named(j)}` };
      },
      mix: ({ t, h, l, a, get }) => ({ name: a + ".mix", values: get(a + ".mix").row(h, t), axis: "D",
        why: (d) => state.off.heads.has(`${l}.${h}`) ? "this head is switched off" : terms([...get(a + ".weights").row(h, t)].map((w, j) => [w, get(a + ".v").row(h, j)[d]])) }),
      output: ({ t, a, get }) => ({ name: a + ".output", values: get(a + ".output").row(t), axis: "C", why: (c) => dot(joinHeads(get(a + ".mix")).row(t), a + ".output", c) }),
      sum1: ({ t, a, b, x, get }) => ({ name: b + ".sum1", values: get(b + ".sum1").row(t), axis: "C",
        why: (c) => plus(x.row(t)[c], get(a + ".output").row(t)[c]) }),
      norm1: ({ t, b, get }) => ({ name: b + ".norm1", values: get(b + ".norm1").row(t), axis: "C", why: (c) => normed(get(b + ".sum1").row(t), b + ".norm1", c) }),
      up: ({ t, b, get }) => ({ name: b + ".ffn.up", values: get(b + ".ffn.up").row(t), axis: "F", why: (f) => dot(get(b + ".norm1").row(t), b + ".ffn.up", f) }),
      hidden: ({ t, b, get }) => ({ name: b + ".ffn.hidden", values: get(b + ".ffn.hidden").row(t), axis: "F", why: (f) => `gelu(${number(get(b + ".ffn.up").row(t)[f])})` }),
      down: ({ t, l, b, get }) => ({ name: b + ".ffn.down", values: get(b + ".ffn.down").row(t), axis: "C",
        why: (c) => state.off.ffns.has(`${l}`) ? "this FFN is switched off" : dot(get(b + ".ffn.hidden").row(t), b + ".ffn.down", c) }),
      sum2: ({ t, b, get }) => ({ name: b + ".sum2", values: get(b + ".sum2").row(t), axis: "C",
        why: (c) => plus(get(b + ".norm1").row(t)[c], get(b + ".ffn.down").row(t)[c]) }),
      norm2: ({ t, l, b, get }) => ({ name: b + ".norm2", values: get(b + ".norm2").row(t), axis: "C",
        why: (c) => normed(get(b + ".sum2").row(t), b + ".norm2", c) + (state.off.scale[l] === 1 ? "" : `, scaled by ${state.off.scale[l]}`) }),
      head: ({ t, get }) => ({ name: "head", values: get("head").row(t), axis: "V", why: (id) => `for ${symbol(id)}: ` + dot(get(`blocks.${L - 1}.norm2`).row(t), "head", id) }),
      probabilities: ({ t }) => ({ name: "softmax(head)", shape: `(T, V) = (${now.T}, ${V})`, values: now.after[t], axis: "V", why: (id) => `the share of ${symbol(id)}` }),
    };
    const axes = { C: "column", D: "column", F: "column", V: "symbol", T: "position", one: "" };
    const letters = { 2: { C: "T, C", F: "T, d_ff", V: "T, V" }, 3: { D: "H, T, D", T: "H, T, T" } };

    for (const link of panel.querySelectorAll("a[data-step]")) {
      const picture = el("canvas", { "aria-hidden": "true" }), value = el("span", { class: "pg-why" });
      const box = el("div", { class: "pg-strip", tabindex: 0, role: "slider", "aria-valuemin": 0 }, picture), name = el("code", { class: "pg-name" });
      const part = { box, picture, value, name, axis: null, count: 0 };
      parts[link.dataset.step] = part;
      const move = (index) => { state.columns[part.axis] = part.index = clamp(index, 0, part.count - 1); update(false); };
      const pointer = (event) => { const r = picture.getBoundingClientRect(); move(Math.floor((event.clientX - r.left) / r.width * part.count)); };
      box.addEventListener("pointermove", (event) => event.pointerType !== "touch" && pointer(event));
      box.addEventListener("click", pointer);
      box.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -1e9, End: 1e9 }[event.key];
        if (!step) return;
        event.preventDefault(), move(part.index + step);
      });
      link.closest("li").append(el("div", { class: "pg-step" }, name, box, value));
    }
    const bar = el("div", { class: "pg-bar" }), which = el("span");
    bar.append(which, pickers());
    panel.prepend(symbols("The symbol to follow", () => [0, "follow it"]), bar);
    views.push(() => {
      const t = at(), l = state.layer, h = state.head, b = `blocks.${l}`, a = b + ".attention";
      panel.querySelectorAll(".pg-step").forEach((node) => { node.hidden = !now.T; });
      put(which, now.T ? `Following ${named(t)}` : "Nothing to follow yet.");
      if (!now.T) return;
      const input = l ? `blocks.${l - 1}.norm2` : "positions", get = (name) => now.log[name];
      const scene = { t, l, h, b, a, input, x: get(input), get };
      const plusColour = colour("--pg-plus"), minusColour = colour("--pg-minus"), ink = colour("--pg-ink");
      for (const [key, part] of Object.entries(parts)) {
        const { name, values, axis, why, shape } = steps[key](scene), count = values.length;
        const finite = [...values].map((v) => (Number.isFinite(v) ? Math.abs(v) : 0)), limit = Math.max(...finite) || 1;
        const index = clamp(state.columns[axis] ?? (axis === "V" ? best(now.after[t]) : axis === "T" ? best(get(a + ".weights").row(h, t)) : finite.indexOf(limit)), 0, count - 1);
        if ("CDF".includes(axis)) state.columns[axis] ??= index; // the same column from step to step
        Object.assign(part, { axis, count, index });
        const tensor = get(name);
        put(part.name, `${name}  ${shape ?? `(${letters[tensor.shape.length][axis]}) = (${tensor.shape.join(", ")})`}`);
        const full = part.box.parentNode.clientWidth || 300, width = Math.min(full, Math.max(16, count * 16));
        part.box.style.width = `${width}px`;
        const g = sharp(part.picture, width, 22), cell = width / count;
        values.forEach((v, i) => {
          g.fillStyle = v < 0 ? minusColour : plusColour;
          g.globalAlpha = v === -Infinity ? 0.9 : 0.95 * Math.abs(v) / limit;
          g.fillRect(i * cell, 0, Math.max(cell - (cell > 4 ? 1 : 0), 0.6), 22);
        });
        g.globalAlpha = 1, g.strokeStyle = ink, g.lineWidth = 1.5;
        g.strokeRect(clamp(index * cell, 1, width - 3), 1, Math.max(cell - 1, 2), 20);
        const place = axis === "one" ? "" : axis === "V" ? `${symbol(index)}: ` : axis === "T" ? `${named(index)}: ` : `column ${index}: `;
        const shown = key === "probabilities" ? percent(values[index]) : axis === "one" ? `${values[0]}` : number(values[index]);
        put(part.value, `${place}${shown} = ${why(index)}`);
        part.box.setAttribute("aria-label", `${name}, ${count} numbers, choose the ${axes[axis] || "number"}`);
        part.box.setAttribute("aria-valuemax", count - 1), part.box.setAttribute("aria-valuenow", index), part.box.setAttribute("aria-valuetext", part.value.textContent);
      }
    });
  }

  // ---- Start ----

  window.playground = { state, changes, get now() { return now; }, shipped, draw: draw_all };
  const makers = { sentence, attention, change, generate, learn, walk };
  compute(), stale = false;
  for (const panel of panels) {
    if (panel.dataset.title) panel.append(el("p", { class: "pg-heading" }, el("strong", {}, panel.dataset.title), " ", el("a", { href: new URL("../../playground/", here) }, "More in the playground")));
    for (const name of panel.dataset.panel.split(" ")) makers[name](panel);
  }
  reminder();
  draw_all();
  for (const panel of panels) panel.dataset.ready = "";
  new MutationObserver(() => update(false)).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
  new ResizeObserver(() => update(false)).observe(panels[0]);
})();
