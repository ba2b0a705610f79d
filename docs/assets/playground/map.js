// The map: every number of the model, and every number it computes from the sentence, on one canvas. It draws
// what plan.js lays out, one small image for each tensor, and tells its owner what is pointed at and chosen. The words
// are on a second canvas, which is not in the page: most keys change no word, and there a font costs no layout.
"use strict";

function makeMap(canvas, { theme, onPoint, onChoose }) {
  const words = document.createElement("canvas"), how = { willReadFrequently: true }; // small pictures, often: the processor is quicker than the way to the graphics card
  const g = canvas.getContext("2d", { alpha: false, ...how }), over = words.getContext("2d", how);
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  let plan = null, model = null, now = null, colours = null, before = null; // before: what is subtracted, if anything
  let size = { width: 0, height: 0, ratio: 1 };
  let view = { x: 0, y: 0, s: 1 }, home = true, frame = 0; // plan coordinates of the corner, pixels for a number
  let pointed = null, chosen = null;                          // {tile, r, c}
  let sheets = null, drawn = {};                              // see `refresh` and `draw`

  // ---- Colours ----

  function mix(a, b, amount) { return a.map((x, i) => Math.round(x + (b[i] - x) * amount)); }
  const pixel = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  function readColours() { // tables from a number's size to a pixel: 255 steps below zero, 255 above
    const t = theme(), { page, plus, minus, look, closed } = t;
    const steps = (colour) => Uint32Array.from({ length: 256 }, (_, n) => pixel(mix(page, colour, (n / 255) ** 0.7)));
    const signed = (below, above) => Uint32Array.from({ length: 511 }, (_, n) => (n < 255 ? below[255 - n] : above[n - 255])); // from −255 to 255
    const below = steps(minus);
    colours = { ...t, sign: signed(below, steps(plus)), share: signed(below, steps(look)), closed: pixel(closed) };
    sheets = null;
  }

  // Numbers are painted on canvases that are not in the page, one pixel a number, laid out as in the plan: one sheet
  // for all weights, painted again when the model is another one, and one for each row of the picture, the band of
  // what is computed, painted again at every key. The page shows parts of them, larger or smaller.
  function sheet(x, y, width, height) {
    const canvas = document.createElement("canvas"), context = canvas.getContext("2d", how);
    canvas.width = width, canvas.height = height;
    const pixels = context.createImageData(width, height);
    return { canvas, context, pixels, bytes: new Uint32Array(pixels.data.buffer), levels: new Int16Array(width * height), limits: {}, x, y, width, height };
  }
  function refresh() {
    if (sheets?.layout !== plan.layout) {
      const bands = plan.rows.map(({ left, right, line }) => sheet(left, line, right - left, plan.room));
      sheets = { weights: sheet(0, 0, plan.width, plan.height), bands, layout: plan.layout, model: null, now: null };
    }
    if (sheets.model !== model || sheets.before !== before || sheets.gradients !== now.gradients) {
      sheets.weights.bytes.fill(0), sheets.weights.levels.fill(0);
      for (const tile of plan.tiles) if (tile.weight) paint(tile, sheets.weights);
      sheets.weights.context.putImageData(sheets.weights.pixels, 0, 0);
    }
    if (sheets.now !== now || sheets.before !== before) repaintBands(unchangedRows());
    Object.assign(sheets, { model, now, before, T: plan.T, gradients: now.gradients });
  }
  // Thanks to the mask, nothing changes for a symbol when another is typed after it: its rows need no new paint. Only
  // the squares of attention get new columns.
  function unchangedRows() {
    const old = sheets.now;
    if (!old || old.model !== now.model || old.changed || now.changed || before || sheets.before || old.start !== now.start) return 0;
    const differs = now.ids.findIndex((id, t) => id !== old.ids[t]);
    return differs < 0 ? now.T : differs;
  }
  function repaintBands(first) {
    const last = Math.max(plan.T, sheets.T ?? plan.room);
    sheets.bands.forEach((band, row) => {
      const tiles = plan.tiles.filter((tile) => tile.row === row && !tile.weight), squares = tiles.filter((tile) => tile.slot);
      const left = Math.min(...squares.map((tile) => tile.x)) - band.x, right = Math.max(...squares.map((tile) => tile.x + tile.slot)) - band.x;
      for (let y = 0; y < last; y++) { // blank
        const [from, to] = y >= first ? [0, band.width] : [left, right];
        if (from < to) band.bytes.fill(0, y * band.width + from, y * band.width + to), band.levels.fill(0, y * band.width + from, y * band.width + to);
      }
      const from = Math.min(...tiles.map((tile) => paint(tile, band, tile.slot ? 0 : first) || tile.slot ? first : 0));
      band.context.putImageData(band.pixels, 0, 0, 0, from, band.width, last - from);
      if (from && left < right) band.context.putImageData(band.pixels, 0, 0, left, 0, right - left, from);
    });
  }
  function paint(tile, { bytes, levels, width, x, y, limits }, first = 0) { // from row `first` on; from which row it has painted
    const share = tile.kind === "share" && !before, corner = (tile.y - y) * width + tile.x - x;
    const parts = slabs(tile, model, now), olds = before ? slabs(tile, before.model, before) : [];
    const sx = tile.w / tile.cols, sy = tile.h / tile.rows;
    if (olds.length) parts.forEach((slab, n) => { // what the changes changed
      const old = olds[n].data;
      slab.data = slab.data.map((a, i) => (a === old[i] ? 0 : a - old[i]));
    });
    const known = `${tile.names[0]} ${tile.head}`;
    let limit = share ? 1 : 0;
    if (!share)
      for (const { data, base, down, right, cols } of parts)
        for (let r = 0; r < tile.rows; r++)
          for (let c = 0, at = base + r * down; c < cols; c++, at += right) {
            const size = Math.abs(data[at]);
            if (size > limit && size !== Infinity) limit = size;
          }
    if (limit !== limits[known]) first = 0;      // another largest number: every colour is another
    limits[known] = limit;
    const scale = 255 / (limit || 1), table = share ? colours.share : colours.sign;
    for (const { data, base, down, right, from, cols } of parts)
      for (let r = first; r < tile.rows; r++) {
        let at = base + r * down, to = corner + r * width + from;
        for (let c = 0; c < cols; c++, at += right, to++) {
          const level = data[at] * scale | 0, colour = Math.abs(data[at]) === Infinity ? colours.closed : table[level + 255];
          if (sx === 1 && sy === 1) bytes[to] = colour, levels[to] = level;
          else block(Math.floor((from + c) * sx), Math.floor(r * sy), Math.max(1, Math.floor(sx)), Math.max(1, Math.floor(sy)), colour, level);
        }
      }
    return first;
    function block(left, top, wide, high, colour, level) { // more than a pixel for a number; or less, and then the largest wins
      for (let j = top; j < top + high; j++)
        for (let i = left, to = corner + j * width + left; i < left + wide; i++, to++)
          if (!bytes[to] || Math.abs(level) >= Math.abs(levels[to])) bytes[to] = colour, levels[to] = level;
    }
  }
  function shrunk({ context, bytes, levels, width: W, height: H }, k) { // one pixel for k × k numbers: the largest, never a mean
    const small = sheet(0, 0, Math.ceil(W / k), Math.ceil(H / k)), best = new Int16Array(small.bytes.length).fill(-1);
    for (let y = 0, at = 0; y < H; y++)
      for (let x = 0; x < W; x++, at++) {
        const to = Math.floor(y / k) * small.width + Math.floor(x / k);
        if (bytes[at] && Math.abs(levels[at]) > best[to]) best[to] = Math.abs(levels[at]), small.bytes[to] = bytes[at];
      }
    small.context.putImageData(small.pixels, 0, 0);
    return small.canvas;
  }

  // ---- Drawing ----

  const px = (tile) => ({ x: (tile.x - view.x) * view.s, y: (tile.y - view.y) * view.s, w: tile.w * view.s, h: tile.h * view.s });
  const visible = (box) => box.x < size.width && box.y < size.height && box.x + box.w > 0 && box.y + box.h > 0;

  function draw() {
    if (!plan || !size.width) return;
    if (!colours) readColours();
    refresh();
    write();
    // A key changes the bands alone; all else is drawn again when it is another view of another thing.
    const lights = chosen || pointed, all = lights || drawn.lights || drawn.view !== view || drawn.words !== written || drawn.model !== model || drawn.before !== before || drawn.gradients !== now.gradients || drawn.size !== size;
    drawn = { view, words: written, model, before, size, lights, gradients: now.gradients };
    g.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    g.fillStyle = colours.paper;
    if (all) g.fillRect(0, 0, size.width, size.height), lay(sheets.weights);
    for (const band of sheets.bands) {
      const box = px({ x: band.x, y: band.y, w: band.width, h: band.height });
      if (!visible(box)) continue;
      if (!all) g.fillRect(box.x, box.y, box.w, box.h + (MAP_ARC - 2) * view.s);
      lay(band, box);
    }
    arcs();
    if (view.s >= 24) for (const tile of plan.tiles) if (tile.h && visible(px(tile))) printed(tile, px(tile));
    g.imageSmoothingEnabled = true;
    if (all || view.s >= 8) g.drawImage(words, 0, 0, size.width, size.height);
    for (const cell of [chosen, pointed]) if (cell) lit(cell, cell === chosen);
  }
  function lay(sheet, { x, y, w, h } = px({ x: sheet.x, y: sheet.y, w: sheet.width, h: sheet.height })) {
    const k = Math.max(1, Math.round(1 / (view.s * size.ratio)));
    g.imageSmoothingEnabled = false;
    g.drawImage(k > 1 ? shrunk(sheet, k) : sheet.canvas, x, y, Math.ceil(sheet.width / k) * k * view.s, Math.ceil(sheet.height / k) * k * view.s);
  }

  let written = {}; // what the words were written for
  function write() {
    const labels = view.s < 8 ? "" : now.labels.join("");
    if (written.layout === plan.layout && written.view === view && written.colours === colours && written.labels === labels) return;
    written = { layout: plan.layout, view, colours, labels };
    over.setTransform(size.ratio, 0, 0, size.ratio, 0, 0), over.clearRect(0, 0, size.width, size.height);
    names(over), symbols(over);
  }
  function arcs() { // the residual stream: from where it is read, below the band, to the plus where it is added
    g.strokeStyle = colours.stream, g.lineWidth = Math.min(3, Math.max(1.5, view.s));
    for (const [from, to] of plan.arcs) {
      const a = px(from), b = px(to), x1 = a.x + a.w / 2, x2 = b.x + b.w / 2, y1 = a.y + a.h + 2, deep = y1 + (MAP_ARC - 8) * view.s;
      g.beginPath(), g.moveTo(x1, y1), g.bezierCurveTo(x1, deep, x1, deep, Math.min(x1 + 20 * view.s, x2), deep);
      g.lineTo(Math.max(x1, x2 - 20 * view.s), deep), g.bezierCurveTo(x2, deep, x2, deep, x2, y1), g.stroke();
      const plusSize = 4;
      g.beginPath(), g.moveTo(x2 - plusSize, y1 + 5), g.lineTo(x2 + plusSize, y1 + 5), g.moveTo(x2, y1 + 1), g.lineTo(x2, y1 + 9), g.stroke();
    }
  }

  const widths = new Map();
  const wide = (word) => widths.get(word) ?? widths.set(word, over.measureText(word).width).get(word);
  function names(g) { // above each tile, where there is room for the word
    g.font = `11px ${colours.font}`, g.textBaseline = "bottom", g.textAlign = "left";
    for (const tile of plan.tiles) {
      if (!tile.label || view.s < 0.5 && !tile.weight) continue;
      const box = px(tile), room = ((tile.slot ?? tile.w) + (tile.head === null ? MAP_GAP : 4)) * view.s; // as for all lengths of this layout
      if (!visible({ ...box, y: box.y - 28, h: box.h + 28 })) continue;
      const width = wide(tile.label), narrow = width > room; // a little too wide: squeezed
      g.fillStyle = tile.weight ? colours.ink : colours.soft;
      if (width * 0.8 <= room) g.fillText(tile.label, box.x, box.y - 2, room);
      if (tile.group && wide(tile.group) <= tile.of * room) g.fillText(tile.group, box.x, box.y - (narrow ? 2 : 14));
    }
    g.fillStyle = colours.soft;
    for (const row of plan.rows) if (view.s >= 0.5) g.fillText(row.label, (row.left - view.x) * view.s, (row.top + MAP_LABEL - view.y) * view.s);
  }

  function symbols(g) { // the symbols, at the left of each row of the picture
    if (view.s < 8) return;
    g.textBaseline = "middle", g.textAlign = "right", g.font = `${Math.min(14, view.s * 0.9)}px ${colours.mono}`;
    const width = Math.min(30, view.s * 2.2);
    for (const row of plan.rows) {
      const left = Math.max(0, (row.left - view.x) * view.s - width);
      g.fillStyle = colours.paper, g.globalAlpha = 0.85;
      g.fillRect(left, (row.line - view.y) * view.s, width, plan.T * view.s);
      g.globalAlpha = 1, g.fillStyle = colours.ink;
      now.labels.forEach((label, t) => g.fillText(label.replace("\\x", ""), left + width - 4, (row.line + t + 0.5 - view.y) * view.s));
    }
  }

  function printed(tile, box) { // the values themselves, when there is room
    const cell = box.w / tile.cols, high = box.h / tile.rows;
    if (high < 12) return;
    g.font = `${Math.min(13, cell / 3.4)}px ${colours.font}`, g.textBaseline = "middle", g.textAlign = "center", g.fillStyle = colours.ink;
    const first = (start, unit) => Math.max(0, Math.floor(-start / unit));
    for (let r = first(box.y, high); r < tile.rows && box.y + r * high < size.height; r++)
      for (let c = first(box.x, cell); c < tile.cols && box.x + c * cell < size.width; c++)
        g.fillText(nice(numberAt(tile, r, c, model, now)), box.x + (c + 0.5) * cell, box.y + (r + 0.5) * high);
  }

  function outline(tile, { row, column, from = 0, to = tile.cols }, colour, width) {
    const box = px(tile), w = box.w / tile.cols, h = box.h / tile.rows;
    const x = box.x + (column ?? from) * w, y = box.y + (row ?? 0) * h;
    const wide = column === undefined ? (to - from) * w : w, high = row === undefined ? box.h : h;
    g.strokeStyle = colours.paper, g.lineWidth = width + 2, g.strokeRect(x - 1, y - 1, wide + 2, high + 2);
    g.strokeStyle = colour, g.lineWidth = width, g.strokeRect(x - 1, y - 1, wide + 2, high + 2);
  }
  function lit(cell, strong) { // the number, and the row and column it was made from
    for (const [tile, where] of cell.sources ?? []) if (tile) outline(tile, where, colours.by, 1.5);
    outline(cell.tile, { row: cell.r, column: cell.c }, strong ? colours.accent : colours.by, 2);
  }

  // ---- The view ----

  function fit() { // the whole model
    const s = Math.min(size.width / plan.width, size.height / plan.height);
    return { x: 0, y: 0, s };
  }
  const wanted = () => Math.max(160, Math.ceil(plan.height * size.width / plan.width)); // the height of the whole
  function bounded({ x, y, s }) { // never off the map
    const w = size.width / s, h = size.height / s;
    return { s, x: w >= plan.width ? 0 : Math.min(Math.max(x, 0), plan.width - w), y: h >= plan.height ? 0 : Math.min(Math.max(y, 0), plan.height - h) };
  }
  function move(to, after = () => {}) {
    cancelAnimationFrame(frame);
    const from = view, target = bounded(to), start = performance.now();
    home = target.s <= fit().s * 1.001;
    canvas.style.touchAction = home ? "pan-y" : "none";
    if (reduced.matches || !size.width) { view = target, draw(), after(); return; }
    const step = (time) => {
      const p = Math.min(1, Math.max(0, (time - start) / 260)), ease = p * p * (3 - 2 * p), s = from.s * (target.s / from.s) ** ease;
      const part = Math.abs(target.s - from.s) < 1e-9 ? ease : (1 / s - 1 / from.s) / (1 / target.s - 1 / from.s); // the corner moves in step with the zoom
      view = { s, x: from.x + (target.x - from.x) * part, y: from.y + (target.y - from.y) * part };
      if (p === 1) view = target;
      draw();
      if (p < 1) frame = requestAnimationFrame(step); else after();
    };
    frame = requestAnimationFrame(step);
  }
  const whole = () => move(fit());
  function around(x, y, w, h, most) { // so that this rectangle of the plan is seen whole, with room for its name
    const s = Math.min(most, (size.width - 80) / w, (size.height - 80) / h);
    return { s: Math.max(s, fit().s), x: x + w / 2 - size.width / s / 2, y: y + h / 2 - size.height / s / 2 };
  }
  function toTile(tile, most = Math.min(28, Math.max(8, 300 / tile.w))) {
    const top = Math.min(tile.y, ...plan.tiles.filter((t) => t.weight && t.x === tile.x && t.row === tile.row).map((t) => t.y));
    move(around(tile.x, top, tile.w, tile.y + tile.h - top, most));
  }
  function toCell(tile, r, c) {
    const s = 40 * tile.cols / tile.w;
    move({ s, x: tile.x + (c + 0.5) * tile.w / tile.cols - size.width / s / 2, y: tile.y + (r + 0.5) * tile.h / tile.rows - size.height / s / 2 });
  }
  function zoom(factor, at = [size.width / 2, size.height / 2]) {
    const s = Math.min(60, Math.max(fit().s, view.s * factor)), [x, y] = [view.x + at[0] / view.s, view.y + at[1] / view.s];
    move({ s, x: x - at[0] / s, y: y - at[1] / s });
  }

  // ---- Pointer ----

  function cellAt(px, py) {
    const x = view.x + px / view.s, y = view.y + py / view.s;
    const tile = plan?.tiles.find((t) => t.h && x >= t.x && x < t.x + t.w && y >= t.y && y < t.y + t.h);
    return tile ? { tile, r: Math.floor((y - tile.y) / tile.h * tile.rows), c: Math.floor((x - tile.x) / tile.w * tile.cols) } : null;
  }
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const fingers = new Map();
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, spot(event));
    drag = { start: spot(event), view, moved: false };
    if (!home) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (fingers.size === 2 && fingers.has(event.pointerId)) { // two fingers: zoom about their middle
      const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
      const old = spread();
      fingers.set(event.pointerId, [x, y]);
      const [a, b] = [...fingers.values()], middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], s = Math.min(60, Math.max(fit().s, view.s * spread() / old));
      view = bounded({ s, x: view.x + middle[0] / view.s - middle[0] / s, y: view.y + middle[1] / view.s - middle[1] / s });
      home = false, drag.moved = true;
      return draw();
    }
    if (drag && event.buttons && !home) {
      const dx = x - drag.start[0], dy = y - drag.start[1];
      if (Math.hypot(dx, dy) > 4) drag.moved = true;
      if (drag.moved) { view = bounded({ s: view.s, x: drag.view.x - dx / view.s, y: drag.view.y - dy / view.s }); return draw(); }
    }
    if (event.pointerType !== "touch") point(cellAt(x, y));
  });
  const lift = (event) => { fingers.delete(event.pointerId); };
  canvas.addEventListener("pointerup", lift), canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    if (drag?.moved) return;
    const cell = cellAt(...spot(event));
    onChoose(cell, Boolean(cell) && chosen?.tile === cell.tile && !home);
  });

  function point(cell) {
    const same = cell && pointed && cell.tile === pointed.tile && cell.r === pointed.r && cell.c === pointed.c;
    if (same || (!cell && !pointed)) return;
    pointed = cell;
    if (cell) cell.sources = onPoint(cell)?.sources; else onPoint(null);
    draw();
  }

  return {
    get plan() { return plan; }, get view() { return view; }, get home() { return home; },
    show(nextPlan, nextModel, nextNow, nextBefore, cell) { // the numbers have changed; draws at once
      const moved = !plan || plan.layout !== nextPlan.layout;
      plan = nextPlan, model = nextModel, now = nextNow, before = nextBefore, pointed = null, chosen = cell;
      if (moved && size.width) {
        this.resize(size.width);
        return;
      }
      draw();
    },
    choose(cell, again = true) { chosen = cell; if (again) draw(); },
    resize(width) { // the height follows the plan
      const ratio = window.devicePixelRatio || 1;
      size = { width, height: 0, ratio };
      size.height = Math.min(Math.max(wanted(), 220), Math.max(360, Math.round(window.innerHeight * 0.85)));
      canvas.width = Math.round(width * ratio), canvas.height = Math.round(size.height * ratio);
      words.width = canvas.width, words.height = canvas.height, written = {};
      canvas.style.height = `${size.height}px`;
      view = home ? fit() : bounded(view);
      draw();
    },
    repaint() { colours = null; draw(); },
    pixel(tile, r, c) { const box = px(tile); return [box.x + (c + 0.5) * box.w / tile.cols, box.y + (r + 0.5) * box.h / tile.rows]; },
    whole, toTile, toCell, zoom, draw, cellAt,
  };
}
