// The attention explorer: one file, no imports, so that a saved page, Jupyter and Colab run the same code.
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

const STATE = ["tokens", "widths", "scores", "width_index", "divide", "sharpness", "selected"];
const read = (model) => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
let count = 0;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function slider(label, max, change) {
  const id = `attn-explorer-${++count}`;
  const input = make("input", { type: "range", id, min: 0, max, step: 1 });
  const output = make("output", { for: id });
  input.addEventListener("input", () => change(+input.value));
  const node = make("div", { class: "attn-control" }, make("label", { for: id }, label), input, output);
  const show = (value, text) => {
    input.value = value;
    input.setAttribute("aria-valuetext", text);
    output.textContent = text;
  };
  return { node, show };
}

// Several widths: choose one, and whether to divide. One width: choose how sharp.
function controls(model, set) {
  const { widths } = read(model);
  if (widths.length === 1) {
    const sharp = slider("Scores multiplied by", SHARPNESS.length - 1, (i) => set("sharpness", SHARPNESS[i]));
    const nearest = (value) => SHARPNESS.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(SHARPNESS[best] - value) ? i : best), 0);
    return { nodes: [sharp.node], show: (state) => sharp.show(nearest(state.sharpness), `× ${state.sharpness}`) };
  }
  const width = slider("Width of query and key", widths.length - 1, (i) => set("width_index", i));
  const id = `attn-explorer-${++count}`;
  const box = make("input", { type: "checkbox", id });
  box.addEventListener("change", () => set("divide", box.checked));
  const divide = make("div", { class: "attn-control" }, box, make("label", { for: id }, "Divide the scores by √E"));
  const show = (state) => {
    width.show(state.width_index, `E = ${widths[state.width_index]}`);
    box.checked = state.divide;
  };
  return { nodes: [width.node, divide], show };
}

function tokenButtons(tokens, set) {
  const buttons = tokens.map((token, i) => {
    const button = make("button", { type: "button" }, token);
    button.addEventListener("click", () => set("selected", i));
    return button;
  });
  const node = make("div", { class: "attn-tokens", role: "group", "aria-label": "Choose the token that asks" }, ...buttons);
  const show = ({ selected }) => buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === selected));
  return { node, show };
}

function rowTable(tokens) {
  const caption = make("caption");
  const head = ["key", "score", "weight"].map((name) => make("th", { scope: "col" }, name));
  const rows = tokens.map((token) => {
    const cells = { score: make("td"), bar: make("span", { class: "attn-bar", "aria-hidden": "true" }), number: make("span") };
    cells.row = make("tr", {}, make("th", { scope: "row" }, token), cells.score, make("td", { class: "attn-weight" }, cells.number, cells.bar));
    return cells;
  });
  const node = make("table", { class: "attn-row" }, caption, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows.map((r) => r.row)));
  const show = ({ selected }, { scores, weights }) => {
    caption.textContent = `“${tokens[selected]}” asks`;
    rows.forEach((cells, j) => {
      cells.score.textContent = scores[selected][j].toFixed(2);
      cells.number.textContent = weights[selected][j].toFixed(2);
      cells.bar.style.width = `${(weights[selected][j] * 6).toFixed(3)}em`;
    });
  };
  return { node, show };
}

function weightTable(tokens) {
  const cells = tokens.map(() => tokens.map(() => make("td")));
  const heads = tokens.map((token) => make("th", { scope: "row" }, token));
  const rows = cells.map((row, i) => make("tr", {}, heads[i], ...row));
  const corner = make("th", { scope: "col" }, "query");
  const columns = tokens.map((token) => make("th", { scope: "col" }, token));
  const table = make("table", { class: "attn-all" }, make("caption", {}, "All weights, keys across"), make("thead", {}, make("tr", {}, corner, ...columns)), make("tbody", {}, ...rows));
  const node = make("div", { class: "attn-scroll", tabindex: 0, role: "region", "aria-label": "Table of all weights" }, table);
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

function readout() {
  const names = ["Spread of all scores", "Gradient through this row (0.5 at most)"];
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
  const { tokens } = read(model);
  const steer = controls(model, set);
  const parts = [tokenButtons(tokens, set), rowTable(tokens), weightTable(tokens), readout()];
  const [buttons, one, all, numbers] = parts.map((part) => part.node);
  const live = make("p", { class: "attn-live", "aria-live": "polite" });
  const tables = make("div", { class: "attn-tables" }, one, all);
  const root = make("div", { class: "attn-explorer", role: "group", "aria-label": "Attention explorer" }, buttons, ...steer.nodes, tables, numbers, live);

  let timer;
  const draw = () => {
    const state = read(model), result = compute(state);
    steer.show(state);
    parts.forEach((part) => part.show(state, result));
    clearTimeout(timer);  // a moving slider speaks once, when it rests
    const weight = result.weights[state.selected][result.top].toFixed(2);
    timer = setTimeout(() => { live.textContent = `“${tokens[state.selected]}” gives its largest weight, ${weight}, to “${tokens[result.top]}”.`; }, live.textContent ? 300 : 0);
  };
  // JupyterLab moves between cells with the arrow keys: keep ours from reaching it.
  const keep = (event) => { if (root.contains(event.target)) event.stopPropagation(); };
  window.addEventListener("keydown", keep, true);
  const events = ["width_index", "divide", "sharpness", "selected"].map((name) => `change:${name}`);
  events.forEach((event) => model.on(event, draw));
  el.append(root);
  draw();
  return () => {
    clearTimeout(timer);
    window.removeEventListener("keydown", keep, true);
    events.forEach((event) => model.off(event, draw));
    root.remove();
  };
}

export default { render };
