// Learning curves with uPlot: from the page's data, and from what job.js hears while a job runs.
"use strict";

(() => {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const font = () => getComputedStyle(document.body).fontFamily;
  const short = (value) => (value == null ? "–" : Number(value.toPrecision(4)).toString());
  // All digits of the step between two ticks, and the same for each.
  const ticks = (_, values, __, ___, step) => {
    const digits = [...Array(9).keys()].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6 * step * 10 ** n);
    const plain = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return values.map((value) => (value == null ? "" : digits == null || Math.abs(value) >= 1e6 ? short(value) : value.toLocaleString("en", plain)));
  };
  const power = (exponent) => (exponent == null ? "–" : short(10 ** exponent));
  const percent = (value) => (value == null ? "–" : `${Number((100 * value).toPrecision(2))} %`);
  const seconds = (value) => (value == null ? "–" : `${Number(value.toPrecision(3))} s`);
  const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
  const height = () => (innerWidth < 600 ? 260 : 320);

  function axis(label, values, size) {
    return { label, values, size, stroke: color("--soft"), labelSize: 22, font: `12px ${font()}`, labelFont: `13px ${font()}`,
      grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
  }

  // Draws into `box`, and again when its width or the colors change. `set` takes new data.
  function chart(box, options) {
    let plot = null, data = null;
    const draw = () => {
      if (!box.isConnected || !data) return;
      plot?.destroy();
      plot = new uPlot({ width: box.clientWidth, height: height(), ...options() }, data, box);
    };
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth !== width) { width = box.clientWidth; draw(); }
    }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return { set(next) { data = next; if (plot) plot.setData(data); else draw(); }, draw };
  }

  // From zero, unless all points are in the last moments.
  const span = (_, least, most) => (least > 0.4 * most ? [least - 0.05 * (most - least), most + 0.02 * (most - least || 1)] : [0, most || 1]);

  // What the curves are drawn against: a button in #against.
  const AGAINST = {
    time: { axis: "seconds", label: "time", value: seconds },
    epoch: { axis: "epoch", label: "epoch", value: (value) => value?.toLocaleString("en") ?? "–" },
    update: { axis: "update", label: "update", value: (value) => value?.toLocaleString("en") ?? "–" },
  };
  const against = () => document.querySelector("#against [aria-pressed=true]")?.dataset.against ?? "time";
  const x = () => AGAINST[against()];

  const curve = (steep) => ({
    scales: { x: { time: false, range: span } },
    axes: [axis(x().axis, ticks, 44), axis("cost", steep ? (_, values) => values.map(power) : ticks, 72)],
    series: [
      { label: x().label, value: (_, value) => x().value(value) },
      { label: "cost", stroke: color("--k0"), width: 2, value: (_, value) => (steep ? power : short)(value), points: { size: 5 } },
      { label: "bound", stroke: color("--k1"), width: 2, value: (_, value) => (steep ? power : short)(value), points: { size: 5 } },
    ],
  });

  const gaps = () => ({
    scales: { x: { time: false, range: span }, y: { distr: 3 } },
    axes: [
      axis(x().axis, ticks, 44),
      { ...axis("relative gap", (_, ticks) => ticks.map((tick) => (tick == null ? "" : percent(tick))), 76), filter: powers },
    ],
    series: [
      { label: x().label, value: (_, value) => x().value(value) },
      { label: "gap", stroke: color("--k2"), width: 2, value: (_, value) => percent(value), points: { size: 5 } },
    ],
  });
  const powers = (_, ticks) => ticks.map((tick) => (String(Number(tick.toPrecision(3)).toExponential()).startsWith("1e") ? tick : null));

  // Both charts of one job from [seconds, cost, bound, epochs, updates].
  function pictures(box) {
    const cost = chart(box, () => curve(steep())), gap = chart(document.getElementById("gap-chart"), gaps);
    let data = null;
    // Of a training that diverges: from 1 to 1e300, drawn as logarithms, because uPlot has no ticks for so many decades.
    const steep = () => Math.max(...data[1]) > 1e6 * data[1][0] && data[1][0] > 0;
    const show = () => {
      const by = data[{ time: 0, epoch: 3, update: 4 }[against()]];
      cost.set([by, ...[data[1], data[2]].map((costs) => (steep() ? costs.map((value) => (value > 0 ? Math.log10(value) : null)) : costs))]);
      gap.set([by, data[1].map((primal, i) => (primal > data[2][i] ? (primal - data[2][i]) / primal : null))]);
    };
    const buttons = document.getElementById("against");
    buttons?.addEventListener("click", (event) => {
      if (!data || !event.target.dataset.against) return;
      for (const button of buttons.children) button.ariaPressed = String(button === event.target);
      show();
      cost.draw(); gap.draw(); // with the names of the other axis
    });
    return { set(next) { data = next; show(); } };
  }

  // The curve of one job.
  function start() {
    const box = document.getElementById("chart");
    if (!box || box.dataset.seen) return;
    box.dataset.seen = "yes"; // until it is replaced
    const plot = pictures(box);
    const stored = read("curve-data");
    if (box.closest("[data-events]")) live(box, plot);
    else if (stored) plot.set(["elapsed_s", "primal", "dual", "epoch", "updates"].map((name) => stored.points[name]));
    else document.querySelectorAll(".charts, #against").forEach((element) => element.remove());
  }

  // Adds each `progress` event that job.js sends to `box`.
  function live(box, plot) {
    const data = [[], [], [], [], []];
    // Events are of all pairs; what the curve is drawn against must not fall.
    const after = (values, value) => Math.max(values[values.length - 1] ?? 0, value ?? 0);
    let drawing = false;
    const later = () => {
      if (drawing) return;
      drawing = true;
      requestAnimationFrame(() => { drawing = false; plot.set(data); });
    };
    box.addEventListener("progress", ({ detail: now }) => {
      if (now.primal == null || now.dual == null) return;
      const last = data[0].length - 1;
      if (last > 0 && data[1][last] === now.primal && data[2][last] === now.dual
          && data[1][last - 1] === now.primal && data[2][last - 1] === now.dual) {
        data[0][last] = now.elapsed_s; // only the time has changed
      } else if (last < 0 || now.elapsed_s > data[0][last]) {
        data[0].push(now.elapsed_s); data[1].push(now.primal); data[2].push(now.dual);
        data[3].push(after(data[3], now.epoch)); data[4].push(after(data[4], now.updates));
      }
      later();
    });
  }

  // Several trainings: excess over the best bound against time, both logarithmic.
  function compare(box) {
    const jobs = read(box.dataset.comparison);
    if (!jobs?.length || box.dataset.seen) return;
    box.dataset.seen = "yes";
    for (const job of jobs) job.excess ??= job.cost.map((cost) => Math.max(0, cost / job.bound - 1));
    const positive = (values, least) => values.map((value) => (value == null ? null : Math.max(value, least)));
    const tables = jobs.map((job) => [positive(job.time, 1e-4), positive(job.excess, 1e-6)]);
    const round = (tick) => [1, 2, 5].includes(Number((tick / 10 ** Math.floor(Math.log10(tick) + 1e-9)).toPrecision(3)));
    const keep = (which) => (_, ticks) => ticks.map((tick) => (which(tick) ? tick : null));
    const formatted = (format) => (_, ticks) => ticks.map((tick) => (tick == null ? "" : format(tick)));
    const plot = chart(box, () => ({
      scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
      axes: [
        { ...axis("seconds", formatted(short), 44), filter: innerWidth < 600 ? powers : keep(round) },
        { ...axis("above the bound", formatted(percent), 84), filter: powers },
      ],
      series: [{ label: "time", value: (_, value) => seconds(value) }].concat(jobs.map((job, i) => ({
        label: job.title, stroke: color(`--k${i % 10}`), width: 2, spanGaps: true, points: { size: 5, show: true },
        value: (_, value) => percent(value),
      }))),
    }));
    plot.set(uPlot.join(tables));
  }

  // What a threshold means: one point of the ROC curve, in words and as a dot.
  function threshold(input) {
    if (input.max === String(read(input.dataset.threshold).threshold.length - 1)) return;
    const { label, threshold, fpr, tpr, rows: [negative, positive] } = read(input.dataset.threshold);
    const dot = document.getElementById("threshold-dot"), words = document.getElementById("at-threshold");
    const show = () => {
      const i = Number(input.value), hits = tpr[i] * positive, wrong = fpr[i] * negative;
      const from = threshold[i] == null ? "No row" : `Rows from ${short(threshold[i])} on`;
      words.textContent = `${from} as ${label}: recall ${percent(tpr[i])}, precision ${hits + wrong ? percent(hits / (hits + wrong)) : "–"}, `
        + `false positives ${percent(fpr[i])}, accuracy ${percent((hits + negative - wrong) / (positive + negative))}.`;
      dot.setAttribute("cx", 200 * fpr[i]);
      dot.setAttribute("cy", 200 - 200 * tpr[i]);
      dot.removeAttribute("hidden");
    };
    Object.assign(input, { min: 0, max: threshold.length - 1, value: threshold.findLastIndex((value) => value == null || value >= 0) });
    input.addEventListener("input", show);
    show();
  }

  const draw = () => { start(); document.querySelectorAll("[data-threshold]").forEach(threshold); document.querySelectorAll("[data-comparison]").forEach(compare); };
  document.addEventListener("htmx:load", draw);
  document.addEventListener("DOMContentLoaded", draw);
})();
