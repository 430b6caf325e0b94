"""The browser of tests that lay out pages. Without one, these tests are left out.

The headless shell lays out pages like Chromium, in half the processor time.
"""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
