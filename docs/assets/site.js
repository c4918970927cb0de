// What scrolls sideways can be reached with the keyboard: tables, formulas and code that are wider than the screen.
function reach() {
  for (const e of document.querySelectorAll(".md-typeset__scrollwrap, .formula, .md-typeset pre > code")) {
    if (e.scrollWidth > e.clientWidth) e.tabIndex = 0;
    else e.removeAttribute("tabindex");
  }
}
document$.subscribe(() => requestAnimationFrame(() => requestAnimationFrame(reach)));
addEventListener("resize", reach);
