// Names for the controls of Swagger UI that have none, as they come and go: a screen reader would
// read "button" and "list". Links inside of buttons stop being links: the button does the same.
"use strict";

const parameter = (element) => element.closest("[data-param-name]")?.dataset.paramName;
const names = {
  ".body-param__text": () => "request body",
  ".copy-to-clipboard button": () => "copy",
  ".examples-select-element": () => "example",
  ".responses-table[role=region]": (element) => element.id.replaceAll("_", " "),
  "select": (element) => parameter(element) ?? "choice",
  "input": (element) => parameter(element) ?? element.placeholder,
};

function label() {
  for (const [selector, nameOf] of Object.entries(names)) {
    for (const element of document.querySelectorAll(`${selector}:not([aria-label])`)) {
      if (!element.labels?.length) element.setAttribute("aria-label", nameOf(element));
    }
  }
  for (const scrolled of document.querySelectorAll("pre.microlight:not([tabindex])")) {
    scrolled.tabIndex = 0;
  }
  for (const heading of document.querySelectorAll(":is(h3, h4, h5):not([aria-level])")) {
    heading.setAttribute("aria-level", heading.tagName[1] - 1); // the title is the only h1 or h2
  }
  for (const link of document.querySelectorAll(".opblock-summary-control a[href]")) {
    link.removeAttribute("href");
  }
}

// The first sections are open, so that all of them can be seen at once.
let unfolded = false;
function unfold() {
  const sections = document.querySelectorAll(".opblock-tag");
  if (unfolded || !sections.length) return;
  unfolded = true;
  history.pushState = () => {}; // else "back" would lead through these
  [...sections].slice(0, 3).forEach((section) => section.click());
  delete history.pushState;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

document.getElementById("swagger-ui").setAttribute("role", "main");
new MutationObserver(() => { unfold(); label(); }).observe(document.getElementById("swagger-ui"), {
  childList: true,
  subtree: true,
});
