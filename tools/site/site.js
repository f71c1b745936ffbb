// What scrolls sideways can be reached with the keyboard; the theme adds it as the page is shown.
"use strict";

function reach() {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    table.tabIndex = 0;
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    buttons.setAttribute("role", "none"); // one landmark for each block of code would be many
  }
}

reach();
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
