// The index of the search is loaded when a reader first touches the page or presses a key: it is
// larger than all else.
"use strict";

(() => {
  const touched = new Promise((resolve) => {
    for (const event of ["pointerdown", "keydown"]) addEventListener(event, resolve, { once: true, capture: true });
  });
  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    if (new URL(url, location).pathname.endsWith("/search.json")) this.send = () => touched.then(() => send.call(this));
    return open.call(this, method, url, ...rest);
  };
})();
