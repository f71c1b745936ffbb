// Charts that the server has drawn: replaced while a job runs, read under the pointer or by arrow keys; and the threshold of a ROC curve.
"use strict";

(() => {
  // The curve of a running job is drawn again after events of job.js, at most once a second.
  function live(box) {
    if (box.dataset.seen || !box.closest("[data-events]")) return;
    box.dataset.seen = "yes"; // until it is replaced
    let timer = null;
    box.addEventListener("progress", () => {
      timer ??= setTimeout(() => {
        timer = null;
        if (box.isConnected) htmx.ajax("GET", box.querySelector("[data-curve]").dataset.curve, { target: box, swap: "innerHTML" });
      }, 1000);
    });
  }

  // An axis is "linear" or "log", its ends in values and in places, and whether it is of shares.
  function axis(text) {
    const [scale, percents, ...ends] = text.split(" ");
    const [low, high, start, end] = ends.map(Number);
    const value = (place) => { const at = low + ((place - start) / (end - start)) * (high - low); return scale === "log" ? 10 ** at : at; };
    const place = (value) => start + ((value - low) / (high - low)) * (end - start);
    return { start, end, place, text: (at) => (percents ? percent : short)(value(at)) };
  }

  // The values of all lines at the place of a pointer, below the chart.
  function readable(chart) {
    const panels = [...chart.querySelectorAll("svg[data-x]")];
    const lines = [...chart.querySelectorAll("path[data-name]")].map((path) => ({
      name: path.dataset.name, y: axis(path.closest("svg").dataset.y),
      points: path.getAttribute("d").split(/[ML]/).filter(Boolean).map((point) => point.split(" ").map(Number)),
    }));
    if (chart.tabIndex === 0 || !lines.length) return;
    chart.tabIndex = 0;
    const x = axis(panels[0].dataset.x);
    const words = document.createElement("p"), hair = document.createElementNS(chart.namespaceURI, "path");
    words.className = "reading"; words.ariaLive = "polite";
    hair.setAttribute("stroke", "var(--soft)");
    chart.append(hair); chart.after(words);
    let at = x.start;
    const show = (place) => {
      at = Math.min(Math.max(place, Math.min(x.start, x.end)), Math.max(x.start, x.end));
      const [top, bottom] = [panels[0], panels[panels.length - 1]].map((panel) => panel.viewBox.baseVal);
      hair.setAttribute("d", `M${at} ${top.y}V${bottom.y + bottom.height}`);
      const near = lines.slice(0, 8).map((line) => {
        const point = line.points.reduce((best, one) => (Math.abs(one[0] - at) < Math.abs(best[0] - at) ? one : best));
        return `${line.name} ${line.y.text(point[1])}`;
      });
      words.textContent = `At ${x.text(at)}: ${near.join(", ")}`;
    };
    chart.addEventListener("pointermove", (event) => show(new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x));
    chart.addEventListener("focus", () => show(at));
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(at + (step * Math.abs(x.end - x.start)) / 50);
    });
  }

  // What a threshold means: one point of the ROC curve, in words and as a dot.
  function threshold(input) {
    const { label, threshold, fpr, tpr, rows: [negative, positive] } = JSON.parse(document.getElementById(input.dataset.threshold).textContent);
    if (input.max === String(threshold.length - 1)) return;
    const panel = document.querySelector("[aria-labelledby=roc] svg[data-x]"), words = document.getElementById("at-threshold");
    const dot = document.createElementNS(panel.namespaceURI, "circle");
    for (const [name, value] of Object.entries({ id: "threshold-dot", r: 5, fill: "var(--k1)" })) dot.setAttribute(name, value);
    panel.append(dot);
    const show = () => {
      const i = Number(input.value), hits = tpr[i] * positive, wrong = fpr[i] * negative;
      const from = threshold[i] == null ? "No row" : `Rows from ${short(threshold[i])} on`;
      words.textContent = `${from} as ${label}: recall ${percent(tpr[i])}, precision ${hits + wrong ? percent(hits / (hits + wrong)) : "–"}, `
        + `false positives ${percent(fpr[i])}, accuracy ${percent((hits + negative - wrong) / (positive + negative))}.`;
      dot.setAttribute("cx", axis(panel.dataset.x).place(fpr[i]));
      dot.setAttribute("cy", axis(panel.dataset.y).place(tpr[i]));
    };
    Object.assign(input, { min: 0, max: threshold.length - 1, value: threshold.findLastIndex((value) => value == null || value >= 0) });
    input.addEventListener("input", show);
    show();
  }

  const draw = () => {
    document.querySelectorAll("#chart").forEach(live);
    document.querySelectorAll(".graph").forEach(readable);
    document.querySelectorAll("[data-threshold]").forEach(threshold);
  };
  document.addEventListener("htmx:load", draw);
  document.addEventListener("DOMContentLoaded", draw);
})();
