// Draws the TeX of every marked element with the KaTeX that is served beside this file.
(function () {
  function draw() {
    for (const element of document.querySelectorAll(".tex:not(.drawn)")) {
      const display = element.classList.contains("display");
      katex.render(element.textContent, element, {
        displayMode: display,
        throwOnError: false,
        strict: "ignore",
      });
      element.classList.add("drawn");
      // An equation wider than the page scrolls: let the keyboard reach it.
      if (display && element.scrollWidth > element.clientWidth) element.tabIndex = 0;
    }
    document.documentElement.dataset.maths = "drawn";
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", draw);
  else draw();
})();
