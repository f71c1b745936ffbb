// A button that copies each block of code; and what scrolls sideways can be reached by keyboard.
"use strict";

for (const code of document.querySelectorAll(".highlight pre")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.innerText);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  if (navigator.clipboard) code.parentElement.append(button); // which only secure origins have
}

for (const wide of document.querySelectorAll(".md-typeset pre > code, .md-typeset table:not([class])")) {
  if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
}
