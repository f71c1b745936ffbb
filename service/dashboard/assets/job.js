// The page of a job that has not ended, by its events.
"use strict";

(() => {
  // As on the pages: "40 s", "59 min 50 s", "2 h 5 min".
  const whole = (value) => {
    const all = Math.ceil(value), minutes = Math.floor(all / 60);
    return all < 90 ? `${all} s` : minutes < 60 ? `${minutes} min ${all % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };
  const put = (id, text) => { const element = document.getElementById(id); if (element) element.textContent = text; };
  const replace = (part) => htmx.ajax("GET", location.pathname, { target: part, select: part, swap: "outerHTML" });
  const OFTEN_MS = 1000; // between two requests for what events do not have
  let timer = null, late = 0;

  // How long the present phase lasts, by the clock of the service.
  const tick = () => document.querySelectorAll("[data-since]").forEach((element) => {
    const { since, spent } = element.dataset;
    element.textContent = whole(Math.max(spent, Date.now() / 1000 - late - since));
  });
  setInterval(tick, 1000);

  function follow() {
    const job = document.getElementById("job");
    if (!job?.dataset.events || job.dataset.seen) return;
    job.dataset.seen = "yes"; // until it is replaced
    late = Date.now() / 1000 - job.dataset.now;
    const events = new EventSource(job.dataset.events);
    const on = (name, then) => events.addEventListener(name, (event) => (job.isConnected ? then(JSON.parse(event.data)) : events.close()));
    let first = true, phase = null, asked = null;
    const refresh = () => { clearTimeout(asked); replace("#job"); };
    const end = (said) => { clearTimeout(timer); events.close(); say(said); refresh(); };
    const renew = () => { asked ??= setTimeout(() => { asked = null; if (job.isConnected) replace("#now"); }, OFTEN_MS); };
    on("progress", (now) => {
      put("epoch", (now.epoch ?? 0).toLocaleString("en")); put("updates", (now.updates ?? 0).toLocaleString("en"));
      put("elapsed", whole(now.elapsed_s ?? 0));
      document.getElementById("chart")?.dispatchEvent(new CustomEvent("progress", { detail: now }));
      if (job.dataset.state !== "running") return; // these are earlier events
      if (now.fraction) document.getElementById("fraction").value = now.fraction;
      put("eta", now.eta_s == null ? "" : `about ${whole(now.eta_s)} left`);
      if (now.phase !== phase || phase === "comparing") renew();
      phase = now.phase;
    });
    on("state", (now) => {
      clearTimeout(timer);
      // The page shows replayed events already.
      if (now.state !== job.dataset.state) timer = setTimeout(() => end(`The job is ${now.state}.`), first ? 300 : 100);
      first = false;
    });
    on("end", () => end("The job has ended."));
    addEventListener("pagehide", () => events.close(), { once: true });
  }

  document.addEventListener("htmx:load", follow);
  document.addEventListener("DOMContentLoaded", follow);
})();
