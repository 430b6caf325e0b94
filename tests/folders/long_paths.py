"""A folder that can be listed, but whose file the system does not describe, because the path of the file is too long.

A folder that may not be entered behaves in the same way, but tests may run as root, whom missing rights do not stop.
"""

import os
from pathlib import Path

from semq.folders.layout import Layout


def layout_with_long_path(tmp_path: Path) -> tuple[Layout, Path]:
    """Return the layout of a root, and a folder in its ``out`` with such a file."""
    layout = Layout(tmp_path.joinpath(*["r" * 210] * 10))
    layout.make()
    folder = layout.out.joinpath(*["d" * 250] * 7)
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    os.close(os.open("f" * 250, os.O_WRONLY | os.O_CREAT, dir_fd=handle))
    os.close(handle)
    return layout, folder
