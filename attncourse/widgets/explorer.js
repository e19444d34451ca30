// The attention explorer, after parts.js.
// First the numbers (pure functions, compared with Python by the tests), then the page that shows them.

export const SHARPNESS = [0, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];

export function softmax(row) {
  const peak = Math.max(...row);
  const terms = row.map((score) => Math.exp(score - peak));
  const total = terms.reduce((sum, term) => sum + term, 0);
  return terms.map((term) => term / total);
}

// What multiplies the dot products before softmax.
export function factor({ width, divide, sharpness }) {
  return sharpness * (divide ? 1 / Math.sqrt(width) : 1);
}

export function spread(rows) {
  const all = rows.flat();
  const mean = all.reduce((sum, x) => sum + x, 0) / all.length;
  return Math.sqrt(all.reduce((sum, x) => sum + (x - mean) ** 2, 0) / all.length);
}

// Frobenius norm of softmax's Jacobian diag(p) - p p^T: how much gradient a row lets through.
export function jacobianNorm(weights) {
  let sum = 0;
  for (let i = 0; i < weights.length; i++)
    for (let j = 0; j < weights.length; j++)
      sum += ((i === j ? weights[i] : 0) - weights[i] * weights[j]) ** 2;
  return Math.sqrt(sum);
}

// Everything that the page shows, from the state alone.
export function compute(state) {
  const times = factor({ ...state, width: state.widths[state.width_index] });
  const scores = state.scores[state.width_index].map((row) => row.map((score) => score * times));
  const weights = scores.map(softmax);
  const row = weights[state.selected];
  return { scores, weights, spread: spread(scores), gradient: jacobianNorm(row), top: row.indexOf(Math.max(...row)) };
}

const STATE = ["tokens", "widths", "scores", "width_index", "divide", "sharpness", "selected", "labels"];
const read = (model) => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));

// Several widths: choose one, and whether to divide. One width: choose how sharp.
function controls(model, set) {
  const { widths, labels } = read(model);
  if (widths.length === 1) {
    const sharp = slider(labels.sharpness, SHARPNESS.length - 1, (i) => set("sharpness", SHARPNESS[i]));
    const nearest = (value) => SHARPNESS.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(SHARPNESS[best] - value) ? i : best), 0);
    return { nodes: [sharp.node], show: (state) => sharp.show(nearest(state.sharpness), `× ${state.sharpness}`) };
  }
  const width = slider(labels.width, widths.length - 1, (i) => set("width_index", i));
  const divide = checkbox(labels.divide, (checked) => set("divide", checked));
  const show = (state) => {
    width.show(state.width_index, `E = ${widths[state.width_index]}`);
    divide.show(state.divide);
  };
  return { nodes: [width.node, divide.node], show };
}

function tokenButtons({ tokens, labels }, set) {
  const buttons = choices(labels.choose, tokens, (i) => set("selected", i));
  return { node: buttons.node, show: ({ selected }) => buttons.show(selected) };
}

function rowTable({ tokens, labels }) {
  const caption = make("caption");
  const head = ["key", "score", "weight"].map((name) => make("th", { scope: "col" }, labels[name]));
  const rows = tokens.map((token) => {
    const cells = { score: make("td"), bar: make("span", { class: "attn-bar", "aria-hidden": "true" }), number: make("span") };
    cells.row = make("tr", {}, make("th", { scope: "row" }, token), cells.score, make("td", { class: "attn-weight" }, cells.number, cells.bar));
    return cells;
  });
  const node = make("table", { class: "attn-row" }, caption, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows.map((r) => r.row)));
  const show = ({ selected }, { scores, weights }) => {
    caption.textContent = fill(labels.asks, { token: tokens[selected] });
    rows.forEach((cells, j) => {
      cells.score.textContent = scores[selected][j].toFixed(2);
      cells.number.textContent = weights[selected][j].toFixed(2);
      cells.bar.style.width = `${(weights[selected][j] * 6).toFixed(3)}em`;
    });
  };
  return { node, show };
}

function weightTable({ tokens, labels }) {
  const cells = tokens.map(() => tokens.map(() => make("td")));
  const heads = tokens.map((token) => make("th", { scope: "row" }, token));
  const rows = cells.map((row, i) => make("tr", {}, heads[i], ...row));
  const corner = make("th", { scope: "col" }, labels.query);
  const columns = tokens.map((token) => make("th", { scope: "col" }, token));
  const table = make("table", { class: "attn-all" }, make("caption", {}, labels.all), make("thead", {}, make("tr", {}, corner, ...columns)), make("tbody", {}, ...rows));
  const node = make("div", { class: "attn-scroll", tabindex: 0, role: "region", "aria-label": labels.table }, table);
  const show = ({ selected }, { weights }) => {
    weights.forEach((row, i) => row.forEach((weight, j) => {
      cells[i][j].textContent = weight.toFixed(2);
      // At most 0.6 of blue over the page, so that the page's own text colour stays readable in both themes.
      cells[i][j].style.background = `rgba(0, 114, 178, ${(0.6 * weight).toFixed(3)})`;
    }));
    rows.forEach((row, i) => row.classList.toggle("attn-on", i === selected));
    heads.forEach((head, i) => { head.textContent = (i === selected ? "▸ " : "") + tokens[i]; });
  };
  return { node, show };
}

function readout({ labels }) {
  const names = [labels.spread, labels.gradient];
  const values = names.map(() => make("dd"));
  const node = make("dl", {}, ...names.flatMap((name, i) => [make("dt", {}, name), values[i]]));
  const show = (_, result) => {
    values[0].textContent = result.spread.toFixed(2);
    values[1].textContent = result.gradient.toFixed(3);
  };
  return { node, show };
}

function render({ model, el }) {
  const set = (name, value) => { model.set(name, value); model.save_changes(); };
  const first = read(model);
  const { tokens, labels } = first;
  const steer = controls(model, set);
  const parts = [tokenButtons(first, set), rowTable(first), weightTable(first), readout(first)];
  const [buttons, one, all, numbers] = parts.map((part) => part.node);
  const voice = speaker();
  const tables = make("div", { class: "attn-tables" }, one, all);
  const root = make("div", { class: "attn-figure attn-explorer", role: "group", "aria-label": labels.figure }, buttons, ...steer.nodes, tables, numbers, voice.node);

  const draw = () => {
    const state = read(model), result = compute(state);
    steer.show(state);
    parts.forEach((part) => part.show(state, result));
    const weight = result.weights[state.selected][result.top].toFixed(2);
    voice.say(fill(labels.spoken, { token: tokens[state.selected], weight, key: tokens[result.top] }));
  };
  const traits = ["width_index", "divide", "sharpness", "selected"];
  return attach({ model, el, root, traits, draw, stop: voice.stop });
}

export default { render };
