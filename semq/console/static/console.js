// Improves pages that work without it: renews live parts when the node has something new, and adds shortcuts.
"use strict";
(() => {
  const live = document.querySelector("[data-live-source]");
  const told = document.getElementById("live-told");
  const pause = document.getElementById("live-pause");
  let paused = false, busy = false, again = false;

  // A part is left alone while somebody types, chooses or reads a fold in it.
  const inUse = part => part.contains(document.activeElement) && document.activeElement !== document.body
    && document.activeElement.matches("input, select, textarea")
    || part.querySelector("input:checked:not([data-initial])") !== null
    || part.querySelector("details[open]") !== null;

  const replace = (page, ids) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      if (ids && !ids.includes(part.id)) continue;
      const fresh = page.getElementById(part.id);
      if (!fresh || inUse(part) || fresh.innerHTML === part.innerHTML) continue;
      const focused = part.contains(document.activeElement) ? document.activeElement : null;
      const place = focused ? [...part.querySelectorAll("a, button")].indexOf(focused) : -1;
      part.innerHTML = fresh.innerHTML;
      if (place >= 0) part.querySelectorAll("a, button")[place]?.focus();
    }
  };

  const renew = async (address, ids) => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(address || location.href, {headers: {"X-Live": "1"}, credentials: "same-origin"});
      if (answer.ok && !answer.redirected)
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"), ids);
    } catch { /* the next event tries again */ }
    busy = false;
    if (again) { again = false; renew(); }
  };

  if (live && window.EventSource) {
    const source = new EventSource(live.dataset.liveSource);
    source.addEventListener("changed", () => { if (!paused) renew(); });
    source.onopen = () => { if (told) told.textContent = live.dataset.liveOn; };
    source.onerror = () => { if (told) told.textContent = live.dataset.liveOff; };
    window.addEventListener("pagehide", () => source.close());
  }
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      if (!paused) renew();
    });
  }

  // What takes long is asked for after the page is there.
  for (const part of document.querySelectorAll("[data-later]")) renew(part.dataset.later, [part.id]);

  // Check boxes of a table, all at once.
  for (const all of document.querySelectorAll("[data-all]")) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked;
    });
  }

  // Shortcuts: / goes to the search, g and a letter to a page.
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
