// The map's layout: which numbers of a model are drawn, and where. Nothing here is drawn or computed: from the
// Config, the length of the text and the chosen heads to tiles and arcs. The unit of length is one number.
//
// Rows are symbols, and each matrix hangs, transposed, above what it makes: x at the left, Wᵀ on top, y where
// they cross. A tile is a rectangle of numbers; its names are those of print(model), in the order of the work.
"use strict";

const MAP_GAP = 9, MAP_LABEL = 14, MAP_VECTOR = 3, MAP_ARC = 22, MAP_SMALL = 36, MAP_LEFT = 14;

const crowdedHeads = (heads, room) => heads * room > 160;

function planMap(config, T, chosen = []) { // chosen[layer]: the head that is drawn in full when there is no room for all
  const { n_layers, n_heads: H, d_model: C, d_ff: F, vocab_size: V, norm_first, bias } = config;
  const room = [24, 48, 96].find((most) => T <= most) ?? Math.max(T, config.context); // for so many symbols: the layout is the same for all up to them
  const tiles = [], arcs = [], rows = [];
  let x = 0, line = 0, row = 0; // where the next tile goes; where the symbols' rows begin; which row of the picture

  function begin(label, tallest, top, left) { // a row of the picture, with room for a matrix of that height
    line = top + MAP_LABEL + tallest + (bias ? MAP_VECTOR + 1 : 0) + 4;
    x = left, row = rows.length;
    rows.push({ label, top, line, left, bottom: line + room + MAP_ARC });
  }
  function put(tile) {
    const placed = { head: null, kind: "sign", again: false, row, ...tile };
    tiles.push(placed);
    return placed;
  }
  const above = (name, label, height, y, tile) => put({ names: [name], label, x, y, h: height, weight: true, ...tile });
  function tensor(names, cols, tile = {}) { // T rows of so many numbers
    const placed = put({ names, label: names.at(-1).split(".").at(-1), x, y: line, w: cols, h: T, rows: T, cols, ...tile });
    x += placed.w + MAP_GAP;
    return placed;
  }
  function linear(name, inputs, outputs) {
    let y = line - 3;
    if (bias) above(name + ".bias", "bias", MAP_VECTOR, (y -= MAP_VECTOR + 1), { w: outputs, rows: 1, cols: outputs, vector: true });
    above(name + ".weight", name.split(".").at(-1), inputs, y - inputs, { w: outputs, rows: inputs, cols: outputs, transposed: true });
    return tensor([name], outputs, { label: "", linear: true });
  }
  function norm(name) {
    const at = x, placed = tensor([name], C, { label: "" }), label = name.split(".").at(-1);
    for (const [part, y] of [[".weight", line - 2 * MAP_VECTOR - 4], [".bias", line - MAP_VECTOR - 3]])
      put({ names: [name + part], label: part === ".weight" ? label : "", x: at, y, w: C, h: MAP_VECTOR, rows: 1, cols: C, vector: true, weight: true });
    return placed;
  }
  function squares(name, layer, kind) { // one T × T square for each head
    const crowded = crowdedHeads(H, room), full = chosen[layer] ?? 0;
    const short = name.split(".").at(-1);
    for (let head = 0; head < H; head++) {
      const small = crowded && head !== full, side = small ? Math.min(MAP_SMALL, T) : T;
      put({ names: [name], label: `${head}`, group: head ? "" : short, head, of: H, kind, slot: small ? MAP_SMALL : room, x, y: line, w: side, h: side, rows: T, cols: T });
      x += (small ? MAP_SMALL : room) + 4;
    }
    x += MAP_GAP - 4;
  }

  // PARTS (parts.js) is read from the Python model when the book is built, as the drawings are: the parts of the
  // forward pass in their order, for a model with one block. Here each kind of part gets its place.
  const sizes = { T, V, C, F };
  let stream = null, last = null;                 // the tile on the residual stream; the tile placed last
  function place(part, block) {
    const name = part.name.replace("blocks.0.", `blocks.${block}.`), shape = part.shape.join(), cols = shape === "H,T,D" ? C : sizes[part.shape.at(-1)]; // heads side by side
    if (shape === "H,T,T") squares(name, block, name.endsWith("weights") ? "share" : "sign"), last = null;
    else if (part.kind === "HookPoint" && shape === "H,T,D" && last?.linear) last.names.push(name), last.heads = H; // cut into heads: the same numbers
    else if (part.kind === "Linear") last = linear(name, last.cols, cols);
    else if (part.kind === "LayerNorm") last = norm(name);
    else last = tensor([name], cols, shape === "H,T,D" ? { heads: H } : shape === "T,T" ? { slot: room } : {});
    if (part.kind === "LayerNorm" && !norm_first) stream = last;
    if (/\.sum\d$/.test(name)) arcs.push([stream, last]), stream = last;
    if (/embedding|positions/.test(name)) stream = last;
  }
  const parts = PARTS[norm_first ? "pre" : "post"], inBlock = (part) => part.name.startsWith("blocks."), first = parts.findIndex(inBlock);
  const again = () => { last = stream = tensor(stream.names, C, { label: "x", again: true }); };

  begin("", V, 0, MAP_LEFT); // the input is a column at the left, the blocks stand beside it, one below the other
  above("embedding.weight", "embedding", V, line - 3 - V, { w: C, rows: V, cols: C });
  for (const part of parts.slice(0, first)) place(part);
  tiles[1].label = "";       // its matrix has the name
  x += room - T;
  const left = x + MAP_LEFT + MAP_GAP;
  for (let i = 0; i < n_layers; i++) {
    begin(`block ${i}`, Math.max(C, F), i ? rows.at(-1).bottom : 0, left);
    again();
    for (const part of parts.filter(inBlock)) place(part, i);
  }
  begin("output", C, rows.at(-1).bottom, left);
  again();
  for (const part of parts.slice(first).filter((part) => !inBlock(part))) place(part);
  tensor(["probabilities"], V, { kind: "share" });

  const width = Math.max(...tiles.map((tile) => tile.x + tile.w)) + MAP_GAP;
  for (const { row, x, w } of tiles) rows[row].right = Math.max(rows[row].right ?? 0, x + w);
  for (const each of rows) each.right = Math.max(each.right, each === rows[0] ? left - MAP_LEFT : 0);
  const layout = `${JSON.stringify(config)} ${room} ${crowdedHeads(H, room) ? chosen : ""}`; // two plans with one layout differ in T alone
  return { tiles, arcs, rows, room, layout, T, width, height: Math.max(rows[0].bottom, rows.at(-1).bottom) - MAP_ARC + MAP_GAP };
}

// The tile of a tensor: of this head, and in this row of the picture if it is drawn there again.
function findTile(plan, name, head = null, row = null) {
  const found = plan.tiles.filter((tile) => tile.names.includes(name) && (tile.head === null || head === null || tile.head === head));
  return found.find((tile) => tile.row === row) ?? found.find((tile) => !tile.again) ?? null;
}

// Where a tile's numbers are: slabs of a flat array, number (r, c) at base + r * down + (c - from) * right.
function slabs(tile, model, now) {
  const [name] = tile.names.slice(-1);
  if (tile.weight) {
    const { data, shape } = (now.gradients ?? model.weights)[name]; // while training, the gradient may stand in a weight's place
    if (tile.vector) return [{ data, base: 0, down: 0, right: 1, from: 0, cols: tile.cols }];
    const [down, right] = tile.transposed ? [1, shape[1]] : [shape[1], 1];
    return [{ data, base: 0, down, right, from: 0, cols: tile.cols }];
  }
  const { data } = now.shown[name];
  if (tile.head !== null) return [{ data, base: tile.head * tile.rows * tile.cols, down: tile.cols, right: 1, from: 0, cols: tile.cols }];
  if (!tile.heads) return [{ data, base: 0, down: tile.cols, right: 1, from: 0, cols: tile.cols }];
  const D = tile.cols / tile.heads; // the heads' columns side by side
  return Array.from({ length: tile.heads }, (_, h) => ({ data, base: h * tile.rows * D, down: D, right: 1, from: h * D, cols: D }));
}

function numberAt(tile, r, c, model, now) {
  const slab = slabs(tile, model, now).find(({ from, cols }) => c >= from && c < from + cols);
  return slab.data[slab.base + r * slab.down + (c - slab.from) * slab.right];
}
