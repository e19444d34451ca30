"""Move the numbers of heavy figures out of the page, into scripts that are loaded when needed.

The one idea: a figure whose state says `static_lazy` costs a reader nothing until he scrolls to
it. Its record becomes a classic script beside the page, because a page that was opened from disk
may load a script and may not fetch a file. `_static/widgets-static.js` loads it.
"""

import json
import re
from pathlib import Path

FOLDER = "_figures"
STATE = re.compile(
    r'(<script type="application/vnd\.jupyter\.widget-state\+json">)(.*?)(</script>)', re.DOTALL
)


def move_out(html, page, depth):
    """Take the lazy figures out of a page.

    Parameters
    ----------
    html : str
        The whole page.
    page : str
        Its name without an ending, such as "chapters/05_many_heads".
    depth : int
        How many folders the page lies below the root.

    Returns
    -------
    html : str
        The page, which names the scripts.
    scripts : dict of str to str
        Path below the root to text.
    """
    scripts = {}

    def shorten(match):
        opening, text, closing = match.groups()
        content = json.loads(text)
        for number, record in content["state"].items():
            if not record.get("state", {}).get("static_lazy"):
                continue
            path = f"{FOLDER}/{page.replace('/', '-')}-{len(scripts)}.js"
            scripts[path] = f"attnLateFigure({json.dumps(number)}, {_safe(record)});\n"
            height = record["state"].get("static_height", 0)
            content["state"][number] = {
                "model_module": record.get("model_module"),
                "late": "../" * depth + path,
                "state": {"static_height": height},
            }
        return opening + _safe(content) + closing

    return STATE.sub(shorten, html), scripts


def _safe(content):
    return json.dumps(content, ensure_ascii=False).replace("</", "<\\/")


def move_all(app, exception):
    """Do so in every page that was written."""
    if exception or app.builder.format != "html":
        return
    root = Path(app.outdir)
    for page in sorted(app.env.all_docs):
        path = root / app.builder.get_target_uri(page)
        if not path.exists():
            continue
        html = path.read_text(encoding="utf-8")
        if '"static_lazy": true' not in html and '"static_lazy":true' not in html:
            continue
        changed, scripts = move_out(html, page, page.count("/"))
        for name, text in scripts.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text, encoding="utf-8", newline="\n")
        path.write_text(changed, encoding="utf-8", newline="\n")


def setup(app):
    """Register with Sphinx."""
    app.connect("build-finished", move_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
