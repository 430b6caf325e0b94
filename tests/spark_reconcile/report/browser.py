"""The layout of a page in a browser: content beyond the edge of a screen of some width, and positions of elements.

The page is put into a frame of that width, with all its folds open, and measured by a headless browser. No network is
used, because the page refers to no other file.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--virtual-time-budget=20000",
)  # fmt: skip
_MEASURE = """
const frame = document.querySelector("iframe"), page = frame.contentDocument;
for (const fold of page.querySelectorAll("details")) fold.open = true;
const seen = [...page.querySelectorAll("body *")].filter(one => one.getClientRects().length && !one.closest("svg"));
const shown = one => one.tagName + "." + one.className + ": " + one.textContent.trim().slice(0, 60);
const pictures = [...page.querySelectorAll("svg")].filter(one => one.getClientRects().length);
const words = pictures.flatMap(one => [...one.querySelectorAll("text")].map(text => [one, text]));
const outside = (text, one) => {
  const a = text.getBoundingClientRect(), b = one.getBoundingClientRect();
  return a.right > b.right + 1 || a.left < b.left - 1 || a.bottom > b.bottom + 1;
};
document.querySelector("pre").textContent = JSON.stringify({
  width: page.documentElement.scrollWidth,
  beyond: seen.filter(one => one.getBoundingClientRect().right > page.documentElement.clientWidth + 1).map(shown),
  scrolled: seen.filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth
    && getComputedStyle(one).overflowX != "visible").map(shown),
  cut: words.filter(([one, text]) => outside(text, one)).map(([one, text]) => text.textContent),
  pictures: pictures.length,
  bars: [...page.querySelectorAll("figure ul")].filter(one => one.getClientRects().length).length,
  letters: Math.min(99, ...words.map(([one, text]) => text.getBoundingClientRect().height)),
});
"""


def laid_out(page: str, width: int, folder: Path) -> dict[str, Any]:
    """Return the measurements of a page on a screen of so many pixels."""
    assert PROGRAM, "there is no browser on this machine"
    frame = f'<iframe width="{width}" height="2000" style="border:0" srcdoc="{html.escape(page)}"></iframe>'
    whole = f"<!DOCTYPE html><meta charset=utf-8>{frame}<pre></pre><script>onload = () => {{ {_MEASURE} }}</script>"
    (folder / "frame.html").write_text(whole, encoding="utf-8")
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [PROGRAM, *_FLAGS, *root, profile, "--window-size=1400,2000", "--dump-dom", (folder / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=300, check=True, encoding="utf-8",
    )  # fmt: skip
    output = re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert output, done.stdout[-500:]
    measured: dict[str, Any] = json.loads(html.unescape(output[1]))
    return measured
