// Additions to links and forms. The pages also work without this script.
"use strict";

// For the scripts of charts and jobs, too.
const short = (value) => (value == null ? "–" : Number(value.toPrecision(4)).toString());
const percent = (value) => (value == null ? "–" : `${Number((100 * value).toPrecision(2))} %`);
// Emptied first, so that the same words are read again.
const say = (text) => {
  const status = document.getElementById("status");
  status.textContent = "";
  setTimeout(() => { status.textContent = text; }, 50);
};

// Times in the visitor's zone and, for lists only, how long ago.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const tellTimes = () => {
  for (const element of document.querySelectorAll("time:not([title])")) {
    const time = new Date(element.dateTime), passed = (time - Date.now()) / 1000;
    const [unit, seconds] = UNITS.find(([, seconds]) => Math.abs(passed) >= seconds) ?? UNITS[3];
    const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(Math.trunc(passed / seconds), unit);
    const local = time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
    element.title = time.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" });
    element.textContent = element.closest(".rows") ? ago : `${local}, ${ago}`;
  }
};
document.addEventListener("DOMContentLoaded", tellTimes);
document.addEventListener("htmx:load", tellTimes);

// A file dropped on the form, or chosen, is uploaded at once, with a progress bar.
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    const zone = event.target.closest?.(".drop");
    if (!zone) return;
    event.preventDefault();
    zone.classList.toggle("over", name === "dragover");
    const files = event.dataTransfer.files;
    if (name === "drop" && files.length) {
      const input = zone.querySelector("input");
      input.files = files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
  });
}
document.addEventListener("htmx:xhr:progress", (event) => {
  const bar = event.target.querySelector?.(".sending");
  if (!bar || !event.detail.lengthComputable) return;
  bar.hidden = false;
  bar.value = (100 * event.detail.loaded) / event.detail.total;
  if (event.detail.loaded === event.detail.total) {
    bar.removeAttribute("value"); // the service reads it now
    say("Uploaded; the service reads the file.");
  }
  const words = bar.parentElement.querySelector(".sent");
  if (words) words.textContent = bar.hasAttribute("value") ? `${Math.round(bar.value)} % uploaded` : "The service reads the file.";
});
document.addEventListener("htmx:afterRequest", (event) => {
  const bar = event.target.querySelector?.(".sending");
  if (!bar) return;
  bar.hidden = true;
  bar.parentElement.querySelector(".sent")?.replaceChildren();
});
document.addEventListener("htmx:sendError", () => say("The service did not respond."));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.copy) {
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      say("Copied.");
      button.textContent = "Copied";
    } catch { // no clipboard without https: select the text instead
      getSelection().selectAllChildren(text);
    }
  }
});

// After a part of the page was exchanged, the focus is where it was, and `#status` reports the change:
// a live region that is exchanged itself may be missed. A button that was disabled loses the focus.
let held = null;
document.addEventListener("htmx:beforeRequest", () => { held = document.activeElement; });
document.addEventListener("htmx:afterSettle", ({ target }) => {
  const news = [...target.querySelectorAll?.("[data-say]") ?? []].map((one) => one.dataset.say || one.textContent);
  if (news.length) say(news.join(" "));
  target.querySelector?.("#prediction .answer, #prediction .problem")?.scrollIntoView({ block: "nearest" });
});
// A page of an error has no part to exchange, such as that of a model which was deleted meanwhile.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.serverResponse.includes('<div id="problem">')) return;
  Object.assign(detail, { selectOverride: "#problem", swapOverride: "innerHTML" });
});
document.addEventListener("htmx:afterRequest", ({ detail }) => setTimeout(() => {
  if (!held || document.activeElement !== document.body) return;
  const part = document.getElementById(detail.target.id) ?? document.getElementById("main");
  const same = (one) => one.id ? one.id === held.id : one.tagName === held.tagName && one.textContent === held.textContent;
  const next = held.isConnected ? held : [...part.querySelectorAll("a, button, input, select")].find(same) ?? part;
  if (next === part) part.tabIndex = -1;
  next.focus({ preventScroll: true });
}, 50)); // settled

// The box above a list selects all of its rows.
document.addEventListener("change", ({ target }) => {
  if (!("all" in target.dataset)) return;
  for (const box of target.form.elements) if (box.name === "id") box.checked = target.checked;
});

// The switches of a proposal fill in the form of the upload, and send it again.
const choose = (control) => {
  const form = control.closest("form.upload");
  const { target, schema, missing } = form.elements;
  const { set, column, was } = control.dataset;
  const columns = schema.value.trim() ? JSON.parse(schema.value) : {};
  if (set === "target" || control.value === "label") {
    target.value = column ?? control.value;
    delete columns[target.value];
    for (const name in columns) if (columns[name].role === "label") delete columns[name];
  } else if (set === "label") {
    target.value = "";
    columns[column] = { role: "label", kind: control.value };
  } else if (set === "missing") {
    missing.value = [missing.value, control.value].filter(Boolean).join(",");
  } else if (set !== "use") {
    form.elements[set].value = control.value;
  } else {
    if (was === "label") target.value = "none";
    const role = ["weight", "group", "time", "ignored"].includes(control.value);
    for (const [name, one] of Object.entries(columns)) { // one column at most with each
      if (control.value !== "ignored" && one.role === control.value) delete columns[name];
    }
    columns[column] = { [role ? "role" : "kind"]: control.value };
  }
  schema.value = Object.keys(columns).length ? JSON.stringify(columns) : "";
  form.requestSubmit();
};
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-set]") && event.target.value) choose(event.target);
  const answer = event.target.matches("form.upload input[type=file]") && document.getElementById("proposal");
  if (answer) startOver(event.target.form);
  if (event.target.matches("form.upload #file") && event.target.files.length) event.target.form.requestSubmit();
});
document.addEventListener("reset", (event) => {
  if (event.target.matches("form.upload")) document.getElementById("upload-answer").replaceChildren();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-set]");
  if (button) choose(button);
});
// What was chosen for one file is not right for another.
const startOver = (form) => {
  for (const name of ["target", "schema", "missing"]) form.elements[name].value = "";
  for (const name of ["decimal", "missing_labels"]) form.elements[name].value = "auto";
  document.getElementById("upload-answer").replaceChildren();
};

// A part of a page that was exchanged has the address of what it shows.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.id === "rows") history.replaceState(null, "", event.detail.pathInfo.finalRequestPath);
});
