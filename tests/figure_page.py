"""A blank page that shows one figure without a kernel, for the tests of figures."""

import base64
import json
from pathlib import Path

import numpy as np

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()
LOADER = Path(__file__).parents[1] / "book/_static/widgets-static.js"

LEFT_OUTSIDE = """() => {
  const figure = document.querySelector(".attn-figure");
  const edge = figure.getBoundingClientRect().right;
  return [...figure.querySelectorAll("*")]
    .filter((node) => !node.closest(".attn-scroll") && node.getBoundingClientRect().right > edge)
    .map((node) => node.className || node.tagName);
}"""


LAYERS, HEADS = 2, 3
TEXTS = ("not bad at all", "so bad", "it was tired", "it was")


def sentence(text, seed):
    tokens = ["[CLS]", *text.split()]
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(len(tokens), 0.3), size=(LAYERS, HEADS, len(tokens)))
    packed = base64.b64encode((255 * weights).round().astype(np.uint8).tobytes()).decode()
    return {"text": text, "tokens": tokens, "weights": packed}


SENTENCES = [sentence(text, seed) for seed, text in enumerate(TEXTS)]


def heads(**choices):
    from attncourse.widgets import HeadBrowser  # where anywidget is

    return HeadBrowser(SENTENCES, LAYERS, HEADS, **choices)


def state_of(widget):
    return {k: v for k, v in widget.get_state().items() if not k.startswith("_") and k != "layout"}


def serve(page, body):
    """Load one document at an address of its own; every other request is refused."""
    html = f"<!doctype html><html lang=en><title>t</title><body>{body}"
    page.route("**/*", lambda route: route.abort())
    page.route("http://page.test/", lambda r: r.fulfill(body=html, content_type="text/html"))
    page.goto("http://page.test/")


def open_saved(page, widget, style=""):
    """Open a page that holds only the saved state and the book's own loader."""
    record = {"model_module": "anywidget", "state": json.loads(json.dumps(state_of(widget)))}
    record["state"] |= {"_esm": widget._esm, "_css": widget._css}
    mime = "application/vnd.jupyter.widget-"
    safe = json.dumps({"state": {"m": record}}).replace("</", "<\\/")
    serve(
        page,
        f"<style>body{{margin:0;font-family:sans-serif;{style}}}</style>"
        f'<script type="{mime}state+json">{safe}</script>'
        f'<script type="{mime}view+json">{{"model_id": "m"}}</script>'
        f"<script>{LOADER.read_text(encoding='utf-8')}</script>",
    )
    page.wait_for_selector(".attn-figure")
