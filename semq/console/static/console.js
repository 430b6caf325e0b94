// Refreshes the live parts of a page when the state of the node has changed, and adds shortcuts. Pages work without it.
"use strict";
(() => {
  const live = document.querySelector("[data-live-source]");
  const state = document.getElementById("live-state");
  const pause = document.getElementById("live-pause");
  let isPaused = false, isBusy = false, isOutdated = false;

  // Beside each time in UTC: the time in the zone of the browser.
  const addLocalTimes = part => {
    for (const time of part.querySelectorAll("main time[datetime]")) {
      const moment = new Date(time.dateTime);
      if (isNaN(moment) || !moment.getTimezoneOffset()) continue;
      const local = Object.assign(document.createElement("span"), {className: "soft local"});
      const clock = moment.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short"});
      const day = moment.toLocaleDateString("sv");  // as in ISO 8601
      local.textContent = time.dateTime.startsWith(day) ? clock : `${day.slice(5)} ${clock}`;
      time.after(" ", local);
    }
  };
  addLocalTimes(document);

  // A part in which the user types, has selected a row, or has opened details, is not replaced.
  const inUse = part => part.contains(document.activeElement) && document.activeElement !== document.body
    && document.activeElement.matches("input, select, textarea")
    || part.querySelector("input:checked:not([data-initial])") !== null
    || part.querySelector("details[open]") !== null;

  // Parts with an address of their own (data-later) are refreshed from that address, by refreshLater.
  const replace = (page, id) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      if (id ? part.id !== id : part.dataset.later) continue;
      const fresh = page.getElementById(part.id);
      if (fresh) addLocalTimes(fresh);
      if (!fresh || inUse(part) || fresh.innerHTML === part.innerHTML) continue;
      const focused = part.contains(document.activeElement) ? document.activeElement : null;
      const place = focused ? [...part.querySelectorAll("a, button")].indexOf(focused) : -1;
      const lefts = [...part.querySelectorAll(".scroll")].map(box => box.scrollLeft);
      part.innerHTML = fresh.innerHTML;
      part.querySelectorAll(".scroll").forEach((box, at) => { box.scrollLeft = lefts[at] ?? 0; });
      if (place >= 0) part.querySelectorAll("a, button")[place]?.focus();
    }
  };

  const refresh = async (address, id) => {
    try {
      const answer = await fetch(address, {headers: {"X-Live": "1"}, credentials: "same-origin"});
      if (answer.ok && !answer.redirected)
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"), id);
    } catch { /* the next event tries again */ }
  };

  // Slow parts, for which the node asks other nodes, are loaded after the page, and then at most every ten seconds.
  let loadedAt = 0;
  const refreshLater = async () => {
    if (Date.now() - loadedAt < 10000) return;
    loadedAt = Date.now();
    for (const part of document.querySelectorAll("[data-later]")) await refresh(part.dataset.later, part.id);
  };

  const refreshAll = async () => {
    if (isBusy) { isOutdated = true; return; }
    isBusy = true;
    await refresh(location.href);
    await refreshLater();
    isBusy = false;
    if (isOutdated) { isOutdated = false; refreshAll(); }
  };

  if (live && window.EventSource) {
    const source = new EventSource(live.dataset.liveSource);
    source.addEventListener("changed", () => { if (!isPaused) refreshAll(); });
    source.onopen = () => { if (state) state.textContent = live.dataset.liveOn; };
    source.onerror = () => { if (state) state.textContent = live.dataset.liveOff; };
    window.addEventListener("pagehide", () => source.close());
  }
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      isPaused = !isPaused;
      pause.setAttribute("aria-pressed", String(isPaused));
      if (!isPaused) refreshAll();
    });
  }

  refreshLater();

  // Select or clear all check boxes of a table.
  for (const all of document.querySelectorAll("[data-all]")) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked;
    });
  }

  document.getElementById("keys")?.removeAttribute("hidden");

  // Shortcuts: / focuses the search, g and a letter opens a page.
  let previousKey = "";
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { field.focus(); event.preventDefault(); }
    } else if (previousKey === "g") {
      document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`)?.click();
    }
    previousKey = event.key;
  });
})();
