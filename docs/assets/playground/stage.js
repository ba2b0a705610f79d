// The map in the page: the prediction, always in view; the canvas; the inspector, where parts are switched off,
// scaled and set; the keyboard's way through the tensors; the guided tour; a checkpoint of the reader's own.
"use strict";

const MAP_LARGEST = 2_000_000; // parameters: more than fit on a screen, and than run in a page between two keys

function mapPanel(app, panel, tools = {}) { // tools: more to do on the map, name -> function that fills a box
  const { el, put, children, state, views, update, percent, at, best } = app;
  const rgb = (name) => { // any CSS colour as three numbers
    const probe = el("span", { style: `color: color-mix(in srgb, var(${name}) 100%, transparent)` });
    panel.append(probe);
    const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number), scale = /srgb/.test(getComputedStyle(probe).color) ? 255 : 1;
    probe.remove();
    return found.map((x) => Math.round(x * scale));
  };
  const css = (name) => getComputedStyle(panel).getPropertyValue(name).trim();
  const theme = () => ({ page: rgb("--pg-zero"), plus: rgb("--pg-plus"), minus: rgb("--pg-minus"), look: rgb("--pg-look"), closed: rgb("--pg-closed"),
    paper: css("--pg-paper"), ink: css("--pg-ink"), soft: css("--pg-soft"), by: css("--pg-by"), stream: css("--pg-stream"), accent: css("--pg-by"),
    font: getComputedStyle(panel).fontFamily, mono: css("--md-code-font-family") || "monospace" });

  // ---- What stands on the page ----

  const after = el("span", { class: "pg-after" }), firsts = el("span", { class: "pg-firsts" }), undo = el("button", { type: "button", class: "pg-chip", onclick: reset }, "Undo all"), home = el("button", { type: "button", class: "pg-chip", onclick: shippedAgain }, "Back to the shipped model");
  const said = el("span", { class: "pg-changed" }), line = el("div", { class: "pg-now" }, after, " ", firsts, said, undo, home);
  const canvas = el("canvas", { class: "pg-canvas", "aria-hidden": "true" }), trail = el("span", { class: "pg-trail" });
  const tool = (label, title, action) => el("button", { type: "button", class: "pg-button", title, "aria-label": title, onclick: action }, label);
  const differ = el("input", { type: "checkbox", id: "pg-differ" });
  const bar = el("div", { class: "pg-mapbar" }, trail, el("span", { class: "pg-buttons" }, tool("−", "zoom out", () => map.zoom(0.5)),
    tool("+", "zoom in", () => map.zoom(2)), tool("Whole model", "show the whole model (Esc)", whole)));
  const legend = el("p", { class: "pg-legend" }, el("i", { class: "pg-key-minus" }), " below zero ", el("i", { class: "pg-key-plus" }), " above zero ",
    el("i", { class: "pg-key-look" }), " a share of 1 ", el("i", { class: "pg-key-closed" }), " −∞, closed ", el("i", { class: "pg-key-stream" }), " residual stream, added at +. ",
    el("label", { for: "pg-differ", class: "pg-differ" }, differ, " show only what your changes changed: now less before"));
  const parts = el("div", { class: "pg-hidden pg-parts", role: "toolbar", "aria-label": "The tensors of the model, in the order of the work; arrow keys move, Enter goes inside" });
  const facts = el("div"), levers = el("div"), inspector = el("section", { class: "pg-inspector", "aria-label": "What is chosen" }, facts, levers);
  const spoken = el("p", { class: "pg-hidden", "aria-live": "polite" });
  const shelf = el("div", { class: "pg-tools" });
  panel.append(line, shelf, bar, canvas, parts, legend, inspector, spoken);
  function shelve(label, box) { // a button that opens a box above the map, and closes the others
    const button = el("button", { type: "button", class: "pg-button", "aria-expanded": "false", onclick: () => open(box.hidden) }, label);
    function open(yes) {
      for (const other of shelf.children) if (other !== button && other.open && yes) other.open(false);
      box.hidden = !yes, button.setAttribute("aria-expanded", yes);
      box.dispatchEvent(new Event(yes ? "opened" : "closed"));
      update(false);
    }
    box.hidden = true, box.classList.add("pg-tool"), button.open = open;
    shelf.append(button), panel.insertBefore(box, bar);
    return open;
  }
  differ.addEventListener("change", () => { state.difference = differ.checked; update(false); });

  const map = makeMap(canvas, { theme, onPoint: (cell) => { if (cell) show(cell); else show(chosen); return cell && told(cell); }, onChoose });
  let chosen = null, later, laterBy = 0, laid = "", plans = {}; // laid: what the layout was made for
  const touched = (name, head = null, r, c) => {
    const of = head === null ? "" : `${head}`;
    return [name, `${name}#${of}`].some((key) => (state.off.scales.get(key) ?? 1) !== 1) || state.off.cells.has(`${name}#${of}#${r}#${c}`) || state.off.cells.has(`${name}##${r}#${c}`);
  };
  const told = (cell) => explain(map.plan, cell.tile, cell.r, cell.c, { model: app.now.model, now: app.now, touched });
  const place = (tile, head = null) => `${tile.names.at(-1)}${head === null ? "" : ` of head ${head}`}`;
  const number = (cell) => numberAt(cell.tile, cell.r, cell.c, app.now.model, app.now);

  // ---- Choosing ----

  function onChoose(cell, again) {
    if (!cell) { whole(); return; }
    const same = chosen && again && chosen.r === cell.r && chosen.c === cell.c;
    select(cell.tile, cell.r, cell.c);
    if (same) map.toCell(cell.tile, cell.r, cell.c); else if (!again) map.toTile(cell.tile);
  }
  function select(tile, r, c, speak = false) {
    chosen = { tile, r: Math.min(Math.max(r, 0), tile.rows - 1), c: Math.min(Math.max(c, 0), tile.cols - 1) };
    if (tile.head !== null) {
      const layer = Number(tile.names[0].split(".")[1]);
      if (state.heads[layer] !== tile.head) { state.heads[layer] = tile.head; app.update(false); }
    }
    chosen.sources = told(chosen).sources;
    map.choose(chosen);
    show(chosen);
    if (!tile.weight && tile.names[0] !== "mask" && chosen.r !== at()) app.choose(chosen.r); // rows are symbols: its prediction
    if (speak) put(spoken, `${tile.names.at(-1)}, row ${chosen.r}, column ${chosen.c}: ${nice(number(chosen))}`);
  }
  function whole() { chosen = null, map.choose(null), map.whole(), show(null); }

  // ---- The inspector ----

  function show(cell) {
    if (!cell || !app.now.T && !cell.tile.weight) {
      levers.replaceChildren();
      facts.replaceChildren(el("p", { class: "pg-note" }, "Point at a number to see what it was made from; click a part to go there, and once more on a number to choose it: what is chosen can be switched off, scaled, or set. Rows are the symbols of your sentence. Each matrix hangs above what it makes."));
      put(trail, "the whole model");
      return;
    }
    const { tile, r, c } = cell, { name, what, origin } = told(cell), first = app.now.model.config.norm_first;
    put(trail, `the whole model › ${name.replaceAll(".", " › ")}${tile.head !== null ? ` › head ${tile.head}` : ""}`);
    const where = tile.weight ? (tile.vector ? `number ${c}` : tile.transposed ? `row ${c}, column ${r}` : `row ${r}, column ${c}`)
      : `${app.named(r)}, ${tile.kind === "share" && tile.head === null || tile.names[0] === "head" ? `for ${symbol(c)}` : tile.cols === app.now.T && (tile.head !== null || name === "mask") ? `looking at ${app.named(c)}` : `column ${c}`}`;
    const value = number(cell), old = app.now.was ? numberAt(tile, r, c, app.now.was.model, app.now.was) : value;
    const rows = [el("p", { class: "pg-what" }, el("code", {}, tile.names.join(" → ")), ` ${tileShape(tile, app.now.T)}`),
      el("p", { class: "pg-value" }, `${where}: `, el("strong", {}, nice(value)), Math.abs(old - value) > 1e-6 ? `, was ${nice(old)}` : ""), el("p", { class: "pg-why" }, tile.weight ? what : `= ${what}`)];
    if (origin) rows.push(el("p", { class: "pg-origin" }, el("code", {}, first && origin[2] ? origin[2] : origin[0]), " ", el("a", { href: new URL("../../" + origin[1], app.here) }, `chapter ${parseInt(origin[1], 10)}`)));
    facts.replaceChildren(...rows);
    if (cell !== chosen) levers.contains(document.activeElement) || levers.replaceChildren();
    else if (levers.of !== `${name} ${tile.head} ${r} ${c}` || !levers.contains(document.activeElement)) levers.replaceChildren(controls(cell)); // not while in use
    levers.of = `${name} ${tile.head} ${r} ${c}`;
  }
  function controls({ tile, r, c }) {
    const name = tile.names.at(-1), now = app.now, D = tile.heads ? tile.cols / tile.heads : 0;
    const head = tile.head ?? (tile.heads ? Math.floor(c / D) : null), box = el("p", { class: "pg-controls" });
    const scaled = (key, words) => {
      const factor = () => state.off.scales.get(key) ?? 1, off = el("button", { type: "button", class: "pg-toggle", onclick: () => set(factor() === 0 ? 1 : 0) });
      const input = el("input", { type: "range", min: 0, max: 3, step: 0.05, "aria-label": `scale of ${words}` }), shown = el("output");
      const say = () => { input.value = factor(), put(shown, `× ${factor()}`), put(off, factor() ? `Switch off ${words}` : `Switch on ${words}`); };
      const set = (value) => {
        value === 1 ? state.off.scales.delete(key) : state.off.scales.set(key, value);
        if (value === 0) for (const cell of [...state.off.cells.keys()]) if (cell.startsWith(key.includes("#") ? `${key}#` : `${name}#`)) state.off.cells.delete(cell); // off is off
        say(), app.update();
      };
      input.addEventListener("input", () => set(Number(input.value)));
      say(), box.append(off, ...(name === "mask" ? [] : [el("label", {}, "scale ", input), shown]));
    };
    if (name === "probabilities") return box;
    scaled(head === null ? name : `${name}#${head}`, head === null ? place(tile) : place(tile, head));
    if (name === "mask" || name === "positions") return box;
    const key = tile.weight ? `${name}##${tile.transposed ? `${c}#${r}` : `${r}#${c}`}` : `${name}#${tile.head ?? ""}#${r}#${c}`;
    const field = el("input", { type: "number", step: "any", value: Number(number({ tile, r, c }).toFixed(4)), "aria-label": "this number" });
    const again = () => { app.draw(), levers.replaceChildren(controls({ tile, r, c })), levers.querySelector("input[type=number]").focus(); };
    field.addEventListener("change", () => {
      const value = Math.fround(Number(field.value)); // as the model stores it
      if (field.value === "" || !Number.isFinite(value)) { put(spoken, "this is no number that the model can hold"); return again(); }
      state.off.cells.set(key, value), update(), again();
    });
    box.append(el("label", {}, "this number ", field));
    if (state.off.cells.has(key)) box.append(el("button", { type: "button", class: "pg-chip", onclick: () => { state.off.cells.delete(key), update(), again(); } }, "as it was"));
    return box;
  }
  function reset() { state.off = app.untouched(), state.difference = differ.checked = false, update(); }
  function halt() { for (const stop of app.halts) stop(); app.halt?.(); } // generation, the training run, training
  function shippedAgain() { halt(), state.model = app.shipped, state.moment = "", state.gradients = null, update(); }
  function changesInWords() {
    const off = [...state.off.scales].filter(([, factor]) => factor !== 1).map(([key, factor]) => `${key.replace("#", " of head ")} ${factor ? `× ${factor}` : "off"}`);
    const set = state.off.cells.size;
    return [...off, set && `${set} number${set > 1 ? "s" : ""} set`].filter(Boolean);
  }

  // ---- Drawing, at every key ----

  const picture = () => {
    const now = app.now, layout = `${JSON.stringify(now.model.config)} ${now.T} ${state.heads}`, fresh = layout !== laid;
    const plan = plans[layout] ??= planMap(now.model.config, now.T, state.heads);
    laid = layout;
    const was = chosen;
    if (chosen && fresh) { // the same number, in the new layout
      const { names, head, again, row } = chosen.tile, tile = plan.tiles.find((t) => t.names[0] === names[0] && t.head === head && t.again === again && t.row === row);
      chosen = tile && tile.rows ? { tile, r: Math.min(chosen.r, tile.rows - 1), c: Math.min(chosen.c, tile.cols - 1) } : null;
    }
    if (chosen) chosen.sources = explain(plan, chosen.tile, chosen.r, chosen.c, { model: now.model, now, touched }).sources;
    map.show(plan, now.model, now, state.difference && now.was ? now.was : null, chosen);
    if (chosen || was || !facts.firstChild) show(chosen);
    differ.disabled = !now.changed;
    prediction();
    if (fresh) clearTimeout(later), later = setTimeout(() => buttons(plan), laterBy);
  };
  picture.picture = true, views.push(picture);
  function prediction() {
    const now = app.now, t = at();
    if (!now.T) { put(after, "Nothing to read, so no prediction."), firsts.replaceChildren(), put(said, ""), undo.hidden = home.hidden = true; return; }
    put(after, `After “${app.last(11)}”:`);
    if (Number.isNaN(now.after[t][0])) put(after, "Your changes have driven the numbers to infinity: there is no prediction (NaN)."), firsts.replaceChildren();
    else likeliest(t, now);
    const list = changesInWords(), other = state.model !== app.shipped;
    put(said, [other && state.moment, list.length && `changed: ${list.join(", ")}`].filter(Boolean).join("; ")), undo.hidden = !list.length, home.hidden = !other;
  }
  function likeliest(t, now) {
    const p = now.after[t], was = now.before[t], order = [];
    p.forEach((a, id) => { // the six likeliest
      if (order.length === 6 && a <= p[order[5]]) return;
      const place = order.findIndex((other) => p[other] < a);
      order.splice(place < 0 ? order.length : place, 0, id), order.length = Math.min(order.length, 6);
    });
    children(firsts, order.length, () => el("span", { class: "pg-first" }, el("code"), " ", el("span"), el("i"), el("b"))).forEach((node, n) => {
      const [label, share, bar, old] = node.children;
      put(label, symbol(order[n]));
      put(share, percent(p[order[n]]) + (now.changed ? `, was ${percent(was[order[n]])}` : ""));
      bar.style.width = `${100 * p[order[n]]}%`, old.style.width = `${now.changed ? 100 * was[order[n]] : 0}%`;
    });
  }

  // ---- Keyboard: one tab stop; arrows from tensor to tensor; Enter goes inside, arrows from number to number ----

  function buttons(plan) { // not at every key: nobody types and walks at once
    laterBy = 300;
    const tiles = plan.tiles.filter((tile) => !tile.again && tile.h), focused = [...parts.children].indexOf(document.activeElement);
    children(parts, tiles.length, () => el("button", { type: "button", tabindex: -1 })).forEach((button, n) => {
      const words = `${place(tiles[n], tiles[n].head)} ${tileShape(tiles[n], app.now.T)}`;
      if (button.textContent !== words) button.textContent = words;
      button.tile = tiles[n], button.tabIndex = n === Math.max(focused, 0) ? 0 : -1;
    });
  }
  let inside = false;
  parts.addEventListener("focusout", () => canvas.classList.remove("pg-walked"));
  parts.addEventListener("focusin", (event) => { canvas.classList.add("pg-walked"), inside = false; if (event.target.tile) go(event.target.tile); });
  const go = (tile) => { if (chosen?.tile !== tile) select(tile, tile.weight ? 0 : at(), 0, true), map.toTile(tile); };
  parts.addEventListener("click", (event) => { if (event.target.tile) go(event.target.tile); }); // Enter is a click
  parts.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key], all = [...parts.children], n = all.indexOf(event.target);
    if (event.key === "Enter") { inside = true, event.preventDefault(), put(spoken, "inside: arrow keys move from number to number, Escape leaves"); return; }
    if (event.key === "Escape" && inside) { inside = false, event.stopPropagation(), put(spoken, "between the tensors again"); return; }
    const jump = { Home: 0, End: all.length - 1 }[event.key];
    if (!step && jump === undefined) return;
    event.preventDefault();
    if (inside && step) return select(chosen.tile, chosen.r + step[0], chosen.c + step[1], true);
    const to = all[Math.min(Math.max(jump ?? n + step[0] + step[1], 0), all.length - 1)];
    all[n].tabIndex = -1, to.tabIndex = 0, to.focus();
  });
  let here = false; // is the map what the reader has to do with?
  document.addEventListener("pointerdown", (event) => { here = panel.contains(event.target); });
  document.addEventListener("keydown", (event) => {
    const typing = /INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName);
    if (event.key === "Escape" && !typing && (here || panel.contains(document.activeElement))) whole();
  });

  // ---- The tour ----

  const stops = [...panel.querySelectorAll("li[data-stop]")];
  if (stops.length) {
    const list = stops[0].parentNode, count = el("span"), box = el("div", { class: "pg-tour" });
    const back = tool("← Back", "back", () => stop(n - 1)), next = tool("Next →", "next", () => stop(n + 1));
    let n = -1, kept = {};
    box.append(el("div", { class: "pg-tour-bar" }, back, count, next), list);
    shelve("Take the tour: one prediction in ten stops", box);
    box.addEventListener("opened", () => { // on the shipped model; what the reader had comes back afterwards
      halt(), kept = { text: state.text, off: state.off, model: state.model, moment: state.moment };
      state.off = app.untouched(), state.model = app.shipped, state.moment = "", state.gradients = null;
      panel.classList.add("pg-touring"), read("the q"), stop(0), line.scrollIntoView({ block: "start" });
    });
    box.addEventListener("closed", () => {
      if (n < 0) return;
      n = -1, panel.classList.remove("pg-touring");
      if (state.text !== "the q") kept.text = state.text; // typed during the tour
      Object.assign(state, kept), read(kept.text), whole();
    });
    function read(text) { state.text = text, state.ids = null, state.at = null, app.update(); }
    function stop(to) {
      n = Math.min(Math.max(to, 0), stops.length - 1);
      stops.forEach((item, i) => { item.hidden = i !== n; });
      back.disabled = n === 0, next.disabled = n === stops.length - 1, put(count, `${n + 1} of ${stops.length}`);
      const [name, head] = stops[n].dataset.stop.split("#");
      if (!state.text) read("the q");
      app.draw();
      {
        if (name === "all") return whole();
        const tile = findTile(map.plan, name, head === undefined ? null : Number(head)), T = app.now.T, r = tile.weight ? app.now.ids[T - 1] : T - 1;
        const row = Array.from({ length: tile.cols }, (_, c) => Math.abs(numberAt(tile, r, c, app.now.model, app.now))).map((a) => (a === Infinity ? 0 : a));
        select(tile, r, best(row)), map.toTile(tile), put(spoken, stops[n].textContent.trim());
      }
    }
    app.tour = { stop, get n() { return n; } };
  }
  for (const [label, fill] of Object.entries(tools)) {
    const box = el("div"), before = views.length;
    fill(box), shelve(label, box);
    for (const view of views.slice(before)) view.box = box;
  }

  // ---- A checkpoint of the reader's own ----

  if (panel.dataset.own !== undefined) {
    const file = el("input", { type: "file", accept: ".safetensors", id: "pg-file" }), note = el("p", { role: "status" });
    shelve("Open a checkpoint", el("div", {}, el("label", { for: "pg-file" }, "A model of your own, a file that ", el("code", {}, "tinyllm train --out my.safetensors"), " wrote; it may be dropped on the map, too, and stays on your computer: "), file, note));
    async function take(given) {
      try {
        const model = TinyLLM.read(await given.arrayBuffer()), total = Object.values(model.weights).reduce((sum, w) => sum + w.data.length, 0);
        if (model.config.vocab_size !== 256) throw new Error(`it knows ${model.config.vocab_size} symbols, and this page reads the 256 of a byte`);
        if (total > MAP_LARGEST) throw new Error(`${total.toLocaleString("en")} parameters are too many to draw; up to ${MAP_LARGEST.toLocaleString("en")} fit`);
        const odd = planMap(model.config, 0).tiles.find(({ weight, names, rows, cols }) => weight && model.weights[names[0]]?.data.length !== rows * cols);
        if (odd || !model.forward([0]).data.every(Number.isFinite)) throw new Error("");
        halt();
        state.off = app.untouched(), state.heads = [], state.gradients = null, state.model = model, state.moment = `${given.name}, ${total.toLocaleString("en")} parameters`;
        app.update(), whole(), put(note, `${given.name} is on the map.`);
      } catch (problem) {
        put(note, `${given.name} cannot be shown: ${/^(it|\d)/.test(problem.message) ? problem.message : "it is no checkpoint of TinyLLM"}.`);
      }
    }
    file.addEventListener("change", () => { if (file.files[0]) take(file.files[0]), file.value = ""; });
    panel.addEventListener("dragover", (event) => event.preventDefault());
    panel.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); });
  }

  let width = 0;
  new ResizeObserver(() => { if (panel.clientWidth !== width) map.resize(width = panel.clientWidth); }).observe(panel);
  new MutationObserver(() => map.repaint()).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
  if (panel.dataset.focus) { // in a chapter: what the chapter is about
    const [name, head] = panel.dataset.focus.split("#");
    requestAnimationFrame(() => requestAnimationFrame(() => { const tile = findTile(map.plan, name, head === undefined ? null : Number(head)); if (tile) select(tile, tile.rows - 1, 0), map.toTile(tile); }));
  }
  window.playground.map = { get plan() { return map.plan; }, get view() { return map.view; }, get chosen() { return chosen; }, get tour() { return app.tour; }, canvas,
    select: (name, r, c, head = null) => select(findTile(map.plan, name, head), r, c), pixel: map.pixel, whole, toTile: map.toTile, redraw: map.draw, repaint: map.repaint, explain: told,
    cell: (name, r, c, head = null) => numberAt(findTile(map.plan, name, head), r, c, app.now.model, app.now) };
}
