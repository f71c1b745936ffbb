// The page of a running job, by its events.
"use strict";

(() => {
  const short = (value) => (value == null ? "–" : Number(value.toPrecision(4)).toString());
  const percent = (value) => (value == null ? "–" : `${Number((100 * value).toPrecision(2))} %`);
  const seconds = (value) => (value == null ? "–" : `${Number(value.toPrecision(3))} s`);
  // As on the pages: "40 s", "59 min 50 s", "2 h 5 min".
  const left = (value) => {
    const all = Math.ceil(value), minutes = Math.floor(all / 60);
    return all < 90 ? `${all} s` : minutes < 60 ? `${minutes} min ${all % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };
  const put = (id, text) => { const element = document.getElementById(id); if (element) element.textContent = text; };
  let timer = null;

  function follow() {
    const job = document.getElementById("job");
    if (!job?.dataset.events || job.dataset.seen) return;
    job.dataset.seen = "yes"; // until it is replaced
    const events = new EventSource(job.dataset.events);
    let first = true;
    const refresh = () => htmx.ajax("GET", location.pathname, { target: "#job", select: "#job", swap: "outerHTML" });
    events.addEventListener("progress", (event) => {
      const now = JSON.parse(event.data);
      document.getElementById("fraction").value = now.fraction ?? 0;
      put("primal", short(now.primal)); put("dual", short(now.dual)); put("gap", percent(now.relative_gap));
      put("epoch", (now.epoch ?? 0).toLocaleString("en")); put("updates", (now.updates ?? 0).toLocaleString("en"));
      put("elapsed", seconds(now.elapsed_s));
      put("eta", now.compiling ? "compiling for this machine, once" : now.comparing ? "comparing settings" : now.eta_s == null ? "" : `about ${left(now.eta_s)} left`);
      document.getElementById("chart")?.dispatchEvent(new CustomEvent("progress", { detail: now }));
    });
    events.addEventListener("state", (event) => {
      const now = JSON.parse(event.data);
      const shown = document.querySelector("#job-state .state");
      if (!shown) { events.close(); return; }
      // The page shows replayed events already.
      const differs = !shown.classList.contains(now.state);
      clearTimeout(timer);
      if (differs) timer = setTimeout(() => { events.close(); say(`The job is ${now.state}.`); refresh(); }, first ? 300 : 100);
      first = false;
    });
    events.addEventListener("end", () => {
      clearTimeout(timer);
      events.close();
      say("The job has ended.");
      refresh();
    });
    addEventListener("pagehide", () => events.close(), { once: true });
  }

  document.addEventListener("htmx:load", follow);
  document.addEventListener("DOMContentLoaded", follow);
})();
