// What pages do beyond links and forms. Everything here can be missing: the pages work without.
"use strict";

const say = (text) => { document.getElementById("said").textContent = text; };

// A file dropped on the form is uploaded at once, and its progress shown.
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
    bar.removeAttribute("value"); // being read now
    say("Uploaded; the file is being read.");
  }
});
document.addEventListener("htmx:afterRequest", (event) => {
  const bar = event.target.querySelector?.(".sending");
  if (bar) bar.hidden = true;
});
document.addEventListener("htmx:sendError", () => say("The service did not answer."));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.confirm && !window.confirm(button.dataset.confirm)) event.preventDefault();
  if (button?.dataset.copy) {
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      say("Copied.");
      button.textContent = "Copied";
    } catch { // no clipboard without https: what would be copied is selected
      getSelection().selectAllChildren(text);
    }
  }
});
