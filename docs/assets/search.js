/* The search of the theme listens to keys only. Text also comes without one: pasted, dictated, chosen on the keyboard of a
   telephone, composed as Chinese is. It is passed on as if a key had been released. */
document.querySelector(".md-search__input")?.addEventListener("input", (event) => event.target.dispatchEvent(new Event("keyup")));
