"""The browser of tests that lay out pages. Without one, these tests are left out.

The headless shell is Chromium without its user interface. It lays out pages in the same way, and loads a page in half
the processor time.
"""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
