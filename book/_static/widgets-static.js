// Mounts anywidget models from the widget state that is stored in the page.
// No kernel, no require.js, nothing fetched: a classic script, so that it also runs from disk.
// A figure with many numbers keeps them in a script of its own (book/_ext/course_late_figures.py),
// which is loaded when the reader comes near.
(function () {
  "use strict";
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const FALLBACK = "This figure reacts when the chapter runs in Jupyter or Colab.";

  // Binary traits travel beside the state: {path, encoding, data}. Jupyter hands them out as DataView.
  function decode({ encoding, data }) {
    const text =
      encoding === "hex"
        ? data.replace(/../g, (pair) => String.fromCharCode(parseInt(pair, 16)))
        : atob(data);
    return new DataView(Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer);
  }

  function putBuffers(state, buffers) {
    for (const buffer of buffers || []) {
      const path = [...buffer.path];
      const last = path.pop();
      const holder = path.reduce((object, key) => object[key], state);
      holder[last] = decode(buffer);
    }
    return state;
  }

  // The part of a widget model that anywidget's front ends use.
  function makeModel(state) {
    const data = { ...state };
    const listeners = {};
    const emit = (name, ...args) => (listeners[name] || []).slice().forEach((f) => f(...args));
    const model = {
      get: (name) => data[name],
      set(name, value) {
        const changes = typeof name === "string" ? { [name]: value } : name;
        for (const [key, next] of Object.entries(changes)) {
          if (Object.is(data[key], next)) continue;
          data[key] = next;
          emit("change:" + key, model, next);
          emit("change", model);
        }
      },
      save_changes() {},
      send() {},
      on(names, f) {
        names.split(" ").forEach((name) => (listeners[name] = listeners[name] || []).push(f));
      },
      off(names, f) {
        for (const name of names ? names.split(" ") : Object.keys(listeners)) {
          if (f) listeners[name] = (listeners[name] || []).filter((g) => g !== f);
          else delete listeners[name];
        }
      },
    };
    return model;
  }

  // One module per source text, shared by all its views. Some browsers refuse blob modules
  // in a page that was opened from disk: a data address serves there.
  const modules = new Map();
  function load(source) {
    if (!modules.has(source)) {
      const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      const data = "data:text/javascript;charset=utf-8," + encodeURIComponent(source);
      const loaded = import(url).catch(() => import(data)).then(async (module) => {
        const definition = module.default || module;
        return typeof definition === "function" ? definition() : definition;
      });
      modules.set(source, loaded);
    }
    return modules.get(source);
  }

  const styles = new Set();
  function addStyle(css) {
    if (!css || styles.has(css)) return;
    styles.add(css);
    document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  }

  const live = new Map();
  async function liveModel(id, record) {
    if (!live.has(id)) {
      live.set(id, (async () => {
        const state = putBuffers(record.state, record.buffers);
        const definition = await load(state._esm);
        const model = makeModel(state);
        if (definition.initialize) await definition.initialize({ model });
        return { definition, model };
      })());
    }
    return live.get(id);
  }

  function quiet(box) {
    box.className = "widget-quiet";
    box.textContent = FALLBACK;
  }

  async function mount(box, id, record) {
    if (!record || record.model_module !== "anywidget") return quiet(box);
    try {
      const { definition, model } = await liveModel(id, record);
      addStyle(record.state._css);
      const element = document.createElement("div");
      await definition.render({ model, el: element });
      box.replaceChildren(element);
      box.className = "widget-live";
      box.style.minHeight = "";
    } catch (error) {
      quiet(box);
      console.warn("widgets-static:", error);
    }
  }

  const awaited = new Map();
  window.attnLateFigure = (id, record) => awaited.get(id)(record);

  // Wait until the box is near the window (or the page is printed), then load the figure's script.
  function arrive(box, id, address) {
    return new Promise((resolve, reject) => {
      awaited.set(id, resolve);
      const fetchNow = () => {
        near.disconnect();
        window.removeEventListener("beforeprint", fetchNow);
        document.head.append(Object.assign(document.createElement("script"), { src: address, onerror: reject }));
      };
      const near = new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && fetchNow(), { rootMargin: "600px" });
      near.observe(box);
      window.addEventListener("beforeprint", fetchNow);
    });
  }

  function start() {
    const records = {};
    for (const script of document.querySelectorAll(`script[type="${STATE}"]`)) {
      Object.assign(records, JSON.parse(script.textContent).state);
    }
    const views = [...document.querySelectorAll(`script[type="${VIEW}"]`)];
    const mounted = views.map((script) => {
      const id = JSON.parse(script.textContent).model_id;
      const record = records[id];
      const box = document.createElement("div");
      // The room is kept from the first moment, so that nothing below jumps.
      const height = record && record.state && record.state.static_height;
      box.className = "widget-waiting";
      box.style.minHeight = (height || 320) + "px";
      script.after(box);
      if (!record || !record.late) return mount(box, id, record);
      arrive(box, id, record.late).then((whole) => mount(box, id, whole), () => quiet(box));
    });
    Promise.all(mounted).then(() => (document.documentElement.dataset.widgets = "mounted"));
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
