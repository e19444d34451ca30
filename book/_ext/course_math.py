"""Write maths as plain TeX in marked elements; self-hosted KaTeX draws it in the page.

No delimiters are written, so a dollar sign or a backslash in running text is never taken for
maths, and pages without maths load no KaTeX at all.
"""

from docutils import nodes
from sphinx.util.math import get_node_equation_number

KATEX_JS = "vendor/katex/katex.min.js"
KATEX_CSS = "vendor/katex/katex.min.css"
WITHOUT_SCRIPT = (
    '<noscript><p class="needs-script">JavaScript is off: formulas stand as LaTeX source.</p>'
    "</noscript>"
)


def visit_inline(self, node):
    """Write inline maths."""
    tag = self.starttag(node, "span", "", CLASS="math tex notranslate nohighlight")
    self.body.append(f"{tag}{self.encode(node.astext())}</span>")
    raise nodes.SkipNode


def visit_display(self, node):
    """Write a displayed equation, with its number and link where it has a label."""
    self.body.append(self.starttag(node, "div", CLASS="math-block notranslate nohighlight"))
    self.body.append(f'<div class="tex display">{self.encode(node.astext().strip())}</div>')
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def add_assets(app, pagename, templatename, context, doctree):
    """Load KaTeX on the pages that have maths, and only there."""
    body = context.get("body", "")
    if "math tex " not in body and 'class="tex display"' not in body:
        return
    context["body"] = body.replace("</h1>", "</h1>\n" + WITHOUT_SCRIPT, 1)
    app.add_css_file(KATEX_CSS)
    app.add_js_file(KATEX_JS, loading_method="defer")
    app.add_js_file("math.js", loading_method="defer")


def setup(app):
    """Register with Sphinx."""
    app.add_html_math_renderer("course_katex", (visit_inline, None), (visit_display, None))
    app.connect("html-page-context", add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
