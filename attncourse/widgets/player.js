// The tile player, after parts.js.
// First the numbers (pure functions, compared with Python by the tests), then the page that shows them.

export const GAINS = [1, 10, 100, 1000];

// What a query knows before it has met a key.
export const nothing = (width) => ({ max: -Infinity, sum: 0, acc: Array(width).fill(0) });

// Fold one block of keys into what a query knows, as attncourse.softmax.fold_block does.
// Without `subtract` exponentials are taken of the scores as they are.
export function fold(before, scores, values, subtract) {
  const max = Math.max(before.max, ...scores);
  const centre = subtract && max !== -Infinity ? max : 0;
  const shrink = subtract ? Math.exp(before.max - centre) : 1;
  const weights = scores.map((score) => Math.exp(score - centre));
  const sum = weights.reduce((total, weight) => total + weight, before.sum * shrink);
  const acc = before.acc.map((old, c) => weights.reduce((total, weight, j) => total + weight * values[j][c], old * shrink));
  return { after: { max, sum, acc }, shrink, weights };
}

// The logarithm of the true sum, and the output: what is written at the end.
export function finish({ max, sum, acc }, subtract) {
  const centre = subtract && max !== -Infinity ? max : 0;
  return { lse: Math.log(sum) + centre, out: acc.map((x) => x / (sum === 0 ? 1 : sum)) };
}

// A query that has seen keys must have a sum that can be divided by.
const lost = ({ max, sum }) => !Number.isFinite(sum) || (sum === 0 && max !== -Infinity);

// Everything that the page shows, from the state alone.
export function compute({ runs, value, run_index, step, watch, gain, subtract }) {
  const { steps, scores, whole } = runs[run_index];
  const now = steps[step], [first, stop] = now.rows, query = Math.min(first + watch, stop - 1);
  let known = nothing(value[0].length), before = known, shrink = 1, weights = [];
  let loaded = 0, stored = 0;
  const tiles = [];
  steps.forEach((each, at) => {
    if (each.kind === "fold") tiles.push({ rows: each.rows, cols: each.cols, state: at < step ? "done" : at === step ? "now" : "todo" });
    if (at > step) return;
    loaded += each.loaded;
    stored += each.stored;
    before = known;
    if (each.kind !== "fold" || each.rows[0] !== first) return;
    const [from, to] = each.cols;
    const met = scores[query].slice(from, to).map((score) => (score === null ? -Infinity : score * gain));
    ({ after: known, shrink, weights } = fold(before, met, value.slice(from, to), subtract));
  });
  const done = steps.filter((each, at) => each.kind === "store" && at <= step).map((each) => each.rows);
  const { lse, out } = finish(known, subtract);
  const held = now.kind === "fold" ? (stop - first) * (now.cols[1] - now.cols[0]) : 0;
  const all = scores.length * scores[0].length;
  return { query, before, after: known, shrink, weights, lse, out, loaded, stored, whole, held, all, tiles, done, message: message() };

  // Which label says what the step does to the watched query.
  function message() {
    if (lost(known)) return "broken";
    if (now.kind === "queries") return "empty";
    if (now.kind === "store") return known.max === -Infinity ? "blind" : "divided";
    if (scores[query].slice(...now.cols).every((score) => score === null)) return "unseen";
    if (!subtract) return "unchecked";
    if (before.max === -Infinity) return "first";
    return known.max > before.max ? "grown" : "kept";
  }
}

// Numbers as a page can show them: short, and never silent about infinity.
export function show(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size >= 1e5 || size < 5e-4) ? x.toExponential(1) : x.toFixed(size >= 100 ? 1 : 3);
  return text.replace("-", "−");
}

const STATE = ["runs", "value", "block_q", "run_index", "step", "watch", "gain", "subtract", "labels"];
const read = (model) => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
const SVG = "http://www.w3.org/2000/svg";
const CELL = 12, SIDE = 14, GAP = 5, BEAT = 1100;

function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const box = (className, x, y, width, height) => draw("rect", { class: className, x, y, width, height });

// The picture: q at the left, k and v above, the scores as squares, outputs and lse at the right.
function picture({ runs, labels }) {
  const rows = runs[0].scores.length, cols = runs[0].scores[0].length;
  const left = SIDE + GAP, top = 2 * SIDE + GAP + 4, wide = cols * CELL, high = rows * CELL;
  const right = left + wide + GAP, pattern = `attn-hatch-${++count}`;
  const hatch = draw("pattern", { id: pattern, width: 5, height: 5, patternUnits: "userSpaceOnUse" },
    draw("path", { class: "attn-hatch", d: "M-1 1 1-1M0 5 5 0M4 6 6 4" }));
  const frame = [
    box("attn-side", 0, top, SIDE, high), box("attn-side", left, 0, wide, SIDE),
    box("attn-side", left, SIDE + 4, wide, SIDE), box("attn-side", right, top, SIDE, high),
    box("attn-side", right + SIDE + 10, top, SIDE, high),
  ];
  const name = (text, x, y) => draw("text", { x, y, class: "attn-name" }, text);
  const names = [
    name("q", SIDE / 2, top + high + 10), name("k", left - 8, SIDE - 3), name("v", left - 8, 2 * SIDE),
    name("out", right + SIDE / 2, top + high + 10), name("lse", right + 1.5 * SIDE + 10, top + high + 10),
  ];
  const layer = draw("g");
  const width = right + 2 * SIDE + 11, height = top + high + 13;
  const node = draw("svg", { viewBox: `-1 -1 ${width + 2} ${height + 1}`, role: "img", "aria-label": labels.picture },
    draw("defs", {}, hatch), ...frame, ...names, layer);
  const at = ([r0, r1], [c0, c1]) => [left + c0 * CELL, top + r0 * CELL, (c1 - c0) * CELL, (r1 - r0) * CELL];

  const show = ({ run_index, step }, { tiles, done, query }) => {
    const { scores, steps } = runs[run_index], now = steps[step], shapes = [];
    // Everything but the tiles is hatched: it is never read.
    const around = [at([0, rows], [0, cols]), ...tiles.map((tile) => at(tile.rows, tile.cols))];
    const d = around.map(([x, y, w, h]) => `M${x} ${y}h${w}v${h}h${-w}z`).join("");
    shapes.push(draw("path", { class: "attn-never", d, "fill-rule": "evenodd", fill: `url(#${pattern})` }));
    for (const tile of tiles) shapes.push(box(`attn-tile attn-${tile.state}`, ...at(tile.rows, tile.cols)));
    // Scores that a tile computes although a mask hides them.
    for (const tile of tiles)
      for (let i = tile.rows[0]; i < tile.rows[1]; i++)
        for (let j = tile.cols[0]; j < tile.cols[1]; j++)
          if (scores[i][j] === null) shapes.push(box("attn-hidden", ...at([i + 0.36, i + 0.64], [j + 0.36, j + 0.64])));
    for (const [first, stop] of done) {
      for (const x of [right, right + SIDE + 10]) shapes.push(box("attn-out", x, top + first * CELL, SIDE, (stop - first) * CELL));
    }
    if (now.kind !== "store") shapes.push(box("attn-q", 0, top + now.rows[0] * CELL, SIDE, (now.rows[1] - now.rows[0]) * CELL));
    if (now.kind === "fold") {
      const [x, , w] = at(now.rows, now.cols);
      shapes.push(box("attn-k", x, 0, w, SIDE), box("attn-v", x, SIDE + 4, w, SIDE));
    }
    shapes.push(box("attn-watched", ...at([query, query + 1], [0, cols])));
    layer.replaceChildren(...shapes);
  };
  return { node: make("div", { class: "attn-picture" }, node, make("p", {}, labels.legend)), show };
}

function table({ labels }) {
  const names = ["row_max", "row_sum", "acc", "lse", "out"];
  const cells = names.map(() => [make("td"), make("td")]);
  const rows = names.map((name, i) => make("tr", {}, make("th", { scope: "row" }, labels[name]), ...cells[i]));
  const caption = make("caption");
  const head = make("tr", {}, make("td"), make("th", { scope: "col" }, labels.before), make("th", { scope: "col" }, labels.after));
  const node = make("table", { class: "attn-known" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
  const vector = (xs) => xs.map(show).join(", ");
  return {
    node,
    show: ({ runs, run_index, step, subtract }, result) => {
      caption.textContent = fill(labels.row, { query: result.query });
      const stored = runs[run_index].steps[step].kind === "store";
      [result.before, result.after].forEach((known, side) => {
        const { lse, out } = finish(known, subtract);
        const texts = [show(known.max), show(known.sum), vector(known.acc), show(lse), stored && side === 1 ? vector(out) : "–"];
        texts.forEach((text, i) => { cells[i][side].textContent = text; });
      });
    },
  };
}

function counters({ labels }) {
  const names = ["held", "moved", "whole"];
  const values = names.map(() => make("span")), bars = names.map(() => make("span", { class: "attn-bar", "aria-hidden": "true" }));
  const node = make("dl", {}, ...names.flatMap((name, i) => [make("dt", {}, labels[name]), make("dd", {}, values[i], bars[i])]));
  return {
    node,
    show: (_, { held, all, loaded, stored, whole }) => {
      const moved = loaded + stored;
      const texts = [fill(labels.held_of, { held, all }), moved, whole];
      const shares = [held / all, moved / whole, 1];
      values.forEach((value, i) => {
        value.textContent = texts[i];
        bars[i].style.width = `${(shares[i] * 2.5).toFixed(3)}em`;
      });
    },
  };
}

// Back, play, step, and a slider over all steps. Only a press of Play makes anything move by itself.
function transport({ runs, labels }, model, set) {
  const go = (step) => set("step", Math.max(0, Math.min(step, last())));
  const last = () => runs[model.get("run_index")].steps.length - 1;
  const button = (label, act) => {
    const node = make("button", { type: "button" }, label);
    node.addEventListener("click", act);
    return node;
  };
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = labels.play;
  };
  const start = () => {
    if (model.get("step") === last()) go(0);
    timer = setInterval(() => go(model.get("step") + 1), BEAT);
    play.textContent = labels.pause;
  };
  const by = (move) => () => { stop(); go(model.get("step") + move); };
  const back = button(labels.back, by(-1)), next = button(labels.next, by(1));
  const play = button(labels.play, () => (timer === null ? start() : stop()));
  const where = slider(labels.step, last(), (step) => { stop(); go(step); });
  const node = make("div", { class: "attn-transport" }, make("div", { class: "attn-choices" }, back, play, next), where.node);
  const show = ({ step }) => {
    where.input.max = last();
    where.show(step, fill(labels.of, { step: step + 1, steps: last() + 1 }));
    if (timer !== null && step === last()) stop();
  };
  return { node, show, stop, playing: () => timer !== null };
}

// What the reader may change about the run.
function experiments({ labels, block_q }, set) {
  const watch = slider(labels.watch, block_q - 1, (offset) => set("watch", offset));
  const gain = slider(labels.gain, GAINS.length - 1, (i) => set("gain", GAINS[i]));
  const subtract = checkbox(labels.subtract, (checked) => set("subtract", checked));
  const node = make("div", { class: "attn-try" }, watch.node, gain.node, subtract.node);
  const show = (state, { query }) => {
    watch.show(state.watch, fill(labels.watched, { query }));
    gain.show(Math.max(0, GAINS.indexOf(state.gain)), `× ${state.gain}`);
    subtract.show(state.subtract);
  };
  return { node, show };
}

function describe({ labels }, { runs, run_index, step }, { message, query, shrink, after }) {
  const { rows, cols, kind } = runs[run_index].steps[step], [first, stop] = kind === "fold" ? cols : rows;
  const moved = fill(labels[stop - first === 1 ? `${kind}_one` : kind], { first, last: stop - 1 });
  return `${moved} ${fill(labels[message], { query, shrink: show(shrink), sum: show(after.sum) })}`;
}

function render({ model, el }) {
  const set = (name, value) => { model.set(name, value); model.save_changes(); };
  const first = read(model), { runs, labels } = first;
  const kinds = choices(labels.masks, runs.map(({ mask, window }) => fill(labels[mask], { window })), (i) => {
    player.stop();
    set("step", Math.min(model.get("step"), runs[i].steps.length - 1));
    set("run_index", i);
  });
  const player = transport(first, model, set);
  const parts = [player, picture(first), table(first), counters(first), experiments(first, set)];
  const [controls, tiles, known, counts, trial] = parts.map((part) => part.node);
  const live = make("p", { class: "attn-live", "aria-live": "polite" });
  const beside = make("div", { class: "attn-beside" }, known, counts);
  const root = make("div", { class: "attn-figure attn-player", role: "group", "aria-label": labels.figure },
    kinds.node, controls, live, make("div", { class: "attn-tables" }, tiles, beside), trial);

  const update = () => {
    const state = read(model), result = compute(state);
    kinds.show(state.run_index);
    parts.forEach((part) => part.show(state, result));
    // A playing figure is seen, not read aloud at every beat.
    live.setAttribute("aria-live", player.playing() ? "off" : "polite");
    live.textContent = describe(first, state, result);
  };
  const traits = ["run_index", "step", "watch", "gain", "subtract"];
  return attach({ model, el, root, traits, draw: update, stop: player.stop });
}

export default { render };
