// Draws the TeX of every marked element with the KaTeX that is served beside this file.
(function () {
  "use strict";
  const SHORT = 24; // longer formulas may break over two lines

  // Keep a comma or full stop on the line of the formula that it follows.
  function holdPunctuation(element) {
    const next = element.nextSibling;
    const mark = next && next.nodeType === Node.TEXT_NODE && /^[.,;:!?)\]’”]+/.exec(next.data);
    if (!mark) return;
    const pair = document.createElement("span");
    pair.style.whiteSpace = "nowrap";
    element.before(pair);
    pair.append(element, mark[0]);
    next.data = next.data.slice(mark[0].length);
  }

  function draw() {
    for (const element of document.querySelectorAll(".tex:not(.drawn)")) {
      const display = element.classList.contains("display");
      const source = element.textContent;
      katex.render(source, element, { displayMode: display, throwOnError: false, strict: "ignore" });
      element.classList.add("drawn");
      if (!display && source.length <= SHORT) holdPunctuation(element);
      // An equation wider than the page scrolls: let the keyboard reach it.
      if (display && element.scrollWidth > element.clientWidth) element.tabIndex = 0;
    }
    document.documentElement.dataset.maths = "drawn";
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", draw);
  else draw();
})();
