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

// An address such as #/datasets/create_dataset shows Swagger UI, which is loaded only then, and #/
// its top; any other shows the list of operations. Nothing of Swagger UI's adds to the way back.
const [list, tried, view] = ["listed", "tried", "swagger-ui"].map((id) => document.getElementById(id));
const status = document.querySelector("[role=status]");
const TRIED = /^#(\/|swagger-ui)/; // to the latter leads the first link of the page
let ui, loading, goal;
history.pushState = (...change) => history.replaceState(...change);
window.noZensmooth = true; // else Swagger UI would follow links to here without `hashchange`

const add = (name, properties) => new Promise((onload, onerror) => {
  document.head.prepend(Object.assign(document.createElement(name), properties, { onload, onerror }));
});

async function load() {
  status.textContent = "Loading …";
  try {
    await Promise.all([
      add("link", { rel: "stylesheet", href: view.dataset.theme }),
      add("script", { src: view.dataset.bundle }),
    ]);
  } catch {
    status.textContent = "Swagger UI could not be loaded: reload the page.";
    return;
  }
  status.textContent = "";
  ui = SwaggerUIBundle({
    url: "/openapi.json",
    domNode: view,
    deepLinking: true,
    docExpansion: "none",
    tryItOutEnabled: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    persistAuthorization: true,
    showExtensions: true,
    showCommonExtensions: true,
    validatorUrl: null, // no badge from another host
    plugins: [{ statePlugins: { layout: { actions: { parseDeepLinkHash: unfold } } } }],
  });
}

const unfold = (hash) => ({ layoutActions }) => {
  const [, tag, operation] = hash.split("/");
  const key = operation ? ["operations", tag, operation] : ["operations-tag", tag];
  if (tag) layoutActions.show(["operations-tag", tag], true);
  if (operation) layoutActions.show(key, true);
  goal = tag ? `#${CSS.escape(key.join("-").replaceAll(" ", "_"))} button` : ".btn.authorize";
};

function reach() {
  const control = goal && view.querySelector(goal);
  if (!control) return;
  goal = undefined;
  control.scrollIntoView();
  control.focus({ preventScroll: true });
}

async function show(change) {
  if (TRIED.test(location.hash)) await (loading ??= load());
  const trying = Boolean(ui) && TRIED.test(location.hash);
  list.hidden = trying;
  tried.hidden = !trying;
  document.querySelector(".skip").hash = trying ? "swagger-ui" : "main";
  if (trying) {
    ui.layoutActions.parseDeepLinkHash(decodeURIComponent(location.hash));
    reach();
  } else if (change) {
    document.querySelector(`li > [href="${CSS.escape(new URL(change.oldURL).hash)}"]`)?.focus();
  }
}
addEventListener("hashchange", show);
show();

const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

new MutationObserver(() => { label(); reach(); }).observe(view, { childList: true, subtree: true });
