// What the figures share. Python puts this text before a figure's own: together they are one module
// without imports, so that a saved page, Jupyter and Colab run the same code.

let count = 0;

// Put values into the blanks of a label: "query {query}" becomes "query 5".
export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (blank, name) => (name in values ? values[name] : blank));
}

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function slider(label, max, change) {
  const id = `attn-figure-${++count}`;
  const input = make("input", { type: "range", id, min: 0, max, step: 1 });
  const output = make("output", { for: id });
  input.addEventListener("input", () => change(+input.value));
  const node = make("div", { class: "attn-control" }, make("label", { for: id }, label), input, output);
  const show = (value, text) => {
    input.value = value;
    input.setAttribute("aria-valuetext", text);
    output.textContent = text;
  };
  return { node, input, show };
}

function checkbox(label, change) {
  const id = `attn-figure-${++count}`;
  const box = make("input", { type: "checkbox", id });
  box.addEventListener("change", () => change(box.checked));
  const node = make("div", { class: "attn-control" }, box, make("label", { for: id }, label));
  return { node, show: (checked) => { box.checked = checked; } };
}

// Several buttons, of which one is pressed.
function choices(label, names, choose) {
  const buttons = names.map((name, i) => {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => choose(i));
    return button;
  });
  const node = make("div", { class: "attn-choices", role: "group", "aria-label": label }, ...buttons);
  const show = (chosen) => buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
  return { node, show };
}

// JupyterLab moves between cells with the arrow keys: keep ours from reaching it. A key goes no further
// than `handle`. Returns what undoes it.
function keepKeys(root, handle = () => {}) {
  const keep = (event) => {
    if (!root.contains(event.target)) return;
    handle(event);
    event.stopPropagation();
  };
  window.addEventListener("keydown", keep, true);
  return () => window.removeEventListener("keydown", keep, true);
}

// A line that is read aloud; one that changes fast, as under a moving slider, speaks once, when it rests.
function speaker() {
  const node = make("p", { class: "attn-live", "aria-live": "polite" });
  let timer;
  const stop = () => clearTimeout(timer);
  const say = (text) => {
    stop();
    timer = setTimeout(() => { node.textContent = text; }, node.textContent ? 300 : 0);
  };
  return { node, say, stop };
}

// Put a figure into its place and draw it anew when a trait changes. Returns what takes it away.
function attach({ model, el, root, traits, draw, handle, stop }) {
  const releaseKeys = keepKeys(root, handle);
  const events = traits.map((name) => `change:${name}`);
  events.forEach((event) => model.on(event, draw));
  el.append(root);
  draw();
  return () => {
    stop();
    releaseKeys();
    events.forEach((event) => model.off(event, draw));
    root.remove();
  };
}
