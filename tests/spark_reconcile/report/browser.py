"""The layout of a page in a headless browser: content beyond the edge, and scrolled boxes.

The page is put into frames with the widths of screens, with all its folds open.
"""

import html
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.console import browsers

_FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--virtual-time-budget=20000",
)  # fmt: skip
_MEASURE = """
const measured = page => {
const ends = [...page.querySelectorAll(".banner h2, .banner .work tbody tr")].map(row => row.getBoundingClientRect().bottom);
for (const fold of page.querySelectorAll("details")) fold.open = true;
const isVisible = element => element.getClientRects().length;
const visible = [...page.querySelectorAll("body *")].filter(element => isVisible(element));
const described = element => element.tagName + "." + element.className + ": " + element.textContent.trim().slice(0, 60);
return {
  ends: ends,
  width: page.documentElement.scrollWidth,
  beyond: visible.filter(element => element.getBoundingClientRect().right > page.documentElement.clientWidth + 1)
    .map(described),
  scrolled: visible.filter(element => element.scrollWidth > element.clientWidth + 1 && element.clientWidth
    && getComputedStyle(element).overflowX != "visible").map(described),
};
};
const frames = [...document.querySelectorAll("iframe")];
document.querySelector("pre").textContent =
  JSON.stringify(Object.fromEntries(frames.map(frame => [frame.width, measured(frame.contentDocument)])));
"""


def measure_layout(page: str, widths: Iterable[int], folder: Path) -> dict[int, dict[str, Any]]:
    """Return the measurements of a page on screens with these widths in pixels, by width."""
    assert browsers.PROGRAM, "there is no browser on this machine"
    source = html.escape(page)
    frames = "".join(
        f'<iframe width="{width}" height="2000" style="border:0" srcdoc="{source}"></iframe>' for width in widths
    )
    document = f"<!DOCTYPE html><meta charset=utf-8>{frames}<pre></pre><script>onload = () => {{ {_MEASURE} }}</script>"
    (folder / "frame.html").write_text(document, encoding="utf-8")
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [browsers.PROGRAM, *_FLAGS, *root, profile, "--window-size=1400,2000", "--dump-dom",
         (folder / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=300, check=True, encoding="utf-8",
    )  # fmt: skip
    output = re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert output, done.stdout[-500:]
    return {int(width): measured for width, measured in json.loads(html.unescape(output[1])).items()}
