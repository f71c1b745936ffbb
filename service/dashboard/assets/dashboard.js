// Additions to links and forms. The pages also work without this script.
"use strict";

const say = (text) => { document.getElementById("status").textContent = text; };

// A file dropped on the form is uploaded at once, with a progress bar.
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    const zone = event.target.closest?.(".drop");
    if (!zone) return;
    event.preventDefault();
    zone.classList.toggle("over", name === "dragover");
    const files = event.dataTransfer.files;
    if (name === "drop" && files.length) {
      zone.querySelector("input").files = files;
      zone.closest("form").requestSubmit();
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
});
document.addEventListener("htmx:afterRequest", (event) => {
  const bar = event.target.querySelector?.(".sending");
  if (bar) bar.hidden = true;
});
document.addEventListener("htmx:sendError", () => say("The service did not respond."));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.confirm && !window.confirm(button.dataset.confirm)) event.preventDefault();
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
