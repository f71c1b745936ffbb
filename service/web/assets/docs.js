// Names for the controls of Swagger UI that have none, as they come and go: a screen reader would
// read "button" and "list". Links inside of buttons stop being links: the button does the same.
"use strict";

const parameter = (element) => element.closest("[data-param-name]")?.dataset.paramName;
const names = {
  ".body-param__text": () => "request body",
  ".copy-to-clipboard button": () => "copy",
  ".examples-select-element": () => "example",
  "select": (element) => parameter(element) ?? "choice",
  "input": (element) => parameter(element) ?? element.placeholder,
};

function mend() {
  for (const [selector, nameOf] of Object.entries(names)) {
    for (const element of document.querySelectorAll(`${selector}:not([aria-label])`)) {
      if (!element.labels?.length) element.setAttribute("aria-label", nameOf(element));
    }
  }
  for (const scrolled of document.querySelectorAll("pre.microlight:not([tabindex])")) {
    scrolled.tabIndex = 0;
  }
  for (const link of document.querySelectorAll(".opblock-summary-control a[href]")) {
    link.removeAttribute("href");
  }
}

new MutationObserver(mend).observe(document.getElementById("swagger-ui"), {
  childList: true,
  subtree: true,
});
