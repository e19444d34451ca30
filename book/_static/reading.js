// Reading aids: figures that scroll can be reached by keyboard, and paper shows what is folded.
(function () {
  "use strict";

  // Only a box that really scrolls becomes a stop of the Tab key. Tables are the theme's concern.
  function markScrolling() {
    for (const box of document.querySelectorAll(".figure-box")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  // Older browsers print a closed <details> closed, whatever the style sheet says.
  function unfold() {
    for (const box of document.querySelectorAll("details:not([open])")) {
      box.open = true;
      box.dataset.folded = "";
    }
  }
  function fold() {
    for (const box of document.querySelectorAll("details[data-folded]")) {
      box.open = false;
      delete box.dataset.folded;
    }
  }

  window.addEventListener("load", markScrolling);
  window.addEventListener("resize", markScrolling);
  window.addEventListener("beforeprint", unfold);
  window.addEventListener("afterprint", fold);
})();
