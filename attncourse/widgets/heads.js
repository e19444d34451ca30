// The head browser, after parts.js.
// First the numbers (pure functions, compared with Python by the tests), then the page that shows them.

// Weights travel as text: one byte a weight, in steps of 1/255, layer by layer, head by head, row by row.
export function unpack(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

// The rows of one head: rows[i][j] is the weight that token i gives to token j.
export function rowsOf(bytes, { layer, head, heads, size }) {
  const start = (layer * heads + head) * size * size;
  return Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_, j) => bytes[start + i * size + j] / 255));
}

// Mean weight of a head on a fixed place: a head that scores high here looks at places, not at meaning.
export function habits(rows) {
  const mean = (pairs) => pairs.reduce((sum, [i, j]) => sum + rows[i][j], 0) / Math.max(pairs.length, 1);
  const all = rows.map((_, i) => i);
  return {
    previous: mean(all.slice(1).map((i) => [i, i - 1])),
    itself: mean(all.map((i) => [i, i])),
    next: mean(all.slice(0, -1).map((i) => [i, i + 1])),
    first: mean(all.map((i) => [i, 0])),
    last: mean(all.map((i) => [i, rows.length - 1])),
  };
}

// Everything that the page shows of one sentence, from the state alone.
export function compute(state, which) {
  const { tokens, weights } = state.sentences[which];
  const rows = rowsOf(unpack(weights), { ...state, size: tokens.length });
  const token = Math.min(state.token, tokens.length - 1);
  const row = rows[token];
  return { rows, token, row, top: row.indexOf(Math.max(...row)), habits: habits(rows) };
}

const HABITS = ["previous", "itself", "next", "first", "last"];
const STATE = ["sentences", "layers", "heads", "sentence", "layer", "head", "token", "labels"];
const read = (model) => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
const two = (weight) => weight.toFixed(2);

// Blue over the page: the same ink in both themes, none where the weight is 0.
function paint(canvas, rows, chosen = -1) {
  const size = rows.length, cell = chosen < 0 ? 2 : 10;
  canvas.width = canvas.height = size * cell;
  const ink = canvas.getContext("2d");
  rows.forEach((row, i) => row.forEach((weight, j) => {
    ink.fillStyle = `rgba(0, 114, 178, ${weight})`;
    ink.fillRect(j * cell, i * cell, cell, cell);
  }));
  if (chosen < 0) return;
  ink.strokeStyle = "#d55e00";
  ink.lineWidth = 2;
  ink.strokeRect(1, chosen * cell + 1, size * cell - 2, cell - 2);
}

function sentenceList({ sentences, labels }, set) {
  const id = `attn-figure-${++count}`;
  const select = make("select", { id }, ...sentences.map(({ text }, i) => make("option", { value: i }, text)));
  select.addEventListener("change", () => set("sentence", +select.value));
  const node = make("div", { class: "attn-control attn-sentences" }, make("label", { for: id }, labels.sentence), select);
  return { node, show: ({ sentence }) => { select.value = sentence; } };
}

// Small pictures of all heads, a layer a row. One of them is in the tab order; arrows walk from it.
function gallery({ layers, heads, labels }, choose) {
  const canvases = [], buttons = [];
  for (let at = 0; at < layers * heads; at++) {
    const layer = Math.floor(at / heads), head = at % heads;
    const canvas = make("canvas", { "aria-hidden": "true" });
    const button = make("button", { type: "button", "aria-label": fill(labels.one, { layer, head }) }, canvas);
    button.addEventListener("click", () => choose(layer, head));
    canvases.push(canvas);
    buttons.push(button);
  }
  const node = make("div", { class: "attn-gallery", role: "group", "aria-label": labels.gallery }, ...buttons);
  node.style.gridTemplateColumns = `repeat(${heads}, minmax(0, 1fr))`;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads };
  const walk = (event) => {
    const next = buttons.indexOf(document.activeElement) + (steps[event.key] || NaN);
    if (!buttons[next]) return;
    event.preventDefault();
    choose(Math.floor(next / heads), next % heads);
    buttons[next].focus();
  };
  let shown = -1;
  const show = (state) => {
    const { tokens, weights } = state.sentences[state.sentence];
    if (shown !== state.sentence) {
      const bytes = unpack(weights);
      canvases.forEach((canvas, at) => paint(canvas, rowsOf(bytes, { layer: Math.floor(at / heads), head: at % heads, heads, size: tokens.length })));
      shown = state.sentence;
    }
    buttons.forEach((button, at) => {
      const on = at === state.layer * heads + state.head;
      button.setAttribute("aria-pressed", on);
      button.tabIndex = on ? 0 : -1;
    });
  };
  return { node, show, walk };
}

// One sentence: its tokens as buttons that carry their weights, and the picture of all rows.
function reading(title, { labels }, set) {
  const heading = make("p", { class: "attn-heading" });
  const words = make("div", { class: "attn-choices attn-words", role: "group" });
  const picture = make("canvas", { role: "img" });
  const node = make("div", { class: "attn-reading" }, heading, words, picture);
  let shown = -1, cells = [];
  const fresh = (tokens) => tokens.map((token, i) => {
    const number = make("span", { class: "attn-number" });
    const button = make("button", { type: "button" }, make("span", {}, token), number);
    for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, () => set("token", i));
    return { button, number };
  });
  const show = (state, which) => {
    const { tokens, text } = state.sentences[which];
    if (shown !== which) {
      heading.textContent = `${title}: ${text}`;
      words.setAttribute("aria-label", `${labels.asks} ${text}`);
      cells = fresh(tokens);
      words.replaceChildren(...cells.map(({ button }) => button));
      shown = which;
    }
    const result = compute(state, which);
    cells.forEach(({ button, number }, j) => {
      button.setAttribute("aria-pressed", j === result.token);
      button.style.background = `rgba(0, 114, 178, ${(0.6 * result.row[j]).toFixed(3)})`;
      number.textContent = two(result.row[j]);
    });
    paint(picture, result.rows, result.token);
    picture.setAttribute("aria-label", fill(labels.picture, { layer: state.layer, head: state.head }));
    return result;
  };
  return { node, show };
}

function habitTable({ labels }) {
  const heads = ["habit", "sentence", "control"].map((name) => make("th", { scope: "col" }, labels[name]));
  const cells = HABITS.map(() => [make("td"), make("td")]);
  const rows = HABITS.map((name, i) => make("tr", {}, make("th", { scope: "row" }, labels[name]), ...cells[i]));
  const node = make("table", { class: "attn-habits" }, make("caption", {}, labels.habits), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
  const show = (...results) => HABITS.forEach((name, i) => results.forEach(({ habits }, k) => { cells[i][k].textContent = two(habits[name]); }));
  return { node, show };
}

function render({ model, el }) {
  const set = (name, value) => { if (model.get(name) !== value) { model.set(name, value); model.save_changes(); } };
  const first = read(model), { labels } = first;
  const list = sentenceList(first, set);
  const all = gallery(first, (layer, head) => { set("layer", layer); set("head", head); });
  const chosen = make("p", { class: "attn-heading" });
  const [own, control] = [labels.sentence, labels.control].map((title) => reading(title, first, set));
  const table = habitTable(first);
  const voice = speaker();
  const pair = make("div", { class: "attn-pair" }, own.node, control.node);
  const root = make("div", { class: "attn-figure attn-heads", role: "group", "aria-label": labels.figure }, list.node, all.node, chosen, pair, table.node, voice.node);

  const draw = () => {
    const state = read(model);
    list.show(state);
    all.show(state);
    chosen.textContent = fill(labels.one, state);
    const result = own.show(state, state.sentence);
    table.show(result, control.show(state, state.sentences[state.sentence].control));
    const { tokens } = state.sentences[state.sentence];
    voice.say(fill(labels.spoken, { token: tokens[result.token], key: tokens[result.top], weight: two(result.row[result.top]) }));
  };
  const traits = ["sentence", "layer", "head", "token"];
  return attach({ model, el, root, traits, draw, handle: all.walk, stop: voice.stop });
}

export default { render };
