// Optional: pages work without it. Refreshes live parts when the node has news, and adds shortcuts.
"use strict";
(() => {
  const live = document.querySelector("[data-live-source]");
  const state = document.getElementById("live-state");
  const pause = document.getElementById("live-pause");
  let paused = false, busy = false, again = false;

  // Do not replace a part while the user types, selects, or has opened a fold in it.
  const inUse = part => part.contains(document.activeElement) && document.activeElement !== document.body
    && document.activeElement.matches("input, select, textarea")
    || part.querySelector("input:checked:not([data-initial])") !== null
    || part.querySelector("details[open]") !== null;

  // Parts with their own address (data-later) are refreshed from there.
  const replace = (page, id) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      if (id ? part.id !== id : part.dataset.later) continue;
      const fresh = page.getElementById(part.id);
      if (!fresh || inUse(part) || fresh.innerHTML === part.innerHTML) continue;
      const focused = part.contains(document.activeElement) ? document.activeElement : null;
      const place = focused ? [...part.querySelectorAll("a, button")].indexOf(focused) : -1;
      part.innerHTML = fresh.innerHTML;
      if (place >= 0) part.querySelectorAll("a, button")[place]?.focus();
    }
  };

  const renew = async (address, id) => {
    try {
      const answer = await fetch(address, {headers: {"X-Live": "1"}, credentials: "same-origin"});
      if (answer.ok && !answer.redirected)
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"), id);
    } catch { /* the next event tries again */ }
  };

  // Slow parts, which ask other nodes, are loaded after the page, and reloaded at intervals.
  let askedAt = 0;
  const renewLater = async () => {
    if (Date.now() - askedAt < 10000) return;
    askedAt = Date.now();
    for (const part of document.querySelectorAll("[data-later]")) await renew(part.dataset.later, part.id);
  };

  const renewAll = async () => {
    if (busy) { again = true; return; }
    busy = true;
    await renew(location.href);
    await renewLater();
    busy = false;
    if (again) { again = false; renewAll(); }
  };

  if (live && window.EventSource) {
    const source = new EventSource(live.dataset.liveSource);
    source.addEventListener("changed", () => { if (!paused) renewAll(); });
    source.onopen = () => { if (state) state.textContent = live.dataset.liveOn; };
    source.onerror = () => { if (state) state.textContent = live.dataset.liveOff; };
    window.addEventListener("pagehide", () => source.close());
  }
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      if (!paused) renewAll();
    });
  }

  renewLater();

  // Select or clear all check boxes of a table.
  for (const all of document.querySelectorAll("[data-all]")) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked;
    });
  }

  // Shortcuts: / focuses the search, g and a letter opens a page.
  let before = "";
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { field.focus(); event.preventDefault(); }
    } else if (before === "g") {
      document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`)?.click();
    }
    before = event.key;
  });
})();
