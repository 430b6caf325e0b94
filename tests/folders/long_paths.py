"""A folder that can be listed, while the system tells nothing about its file: the path of the file is too long.

Without the right to enter a folder it is the same, but tests may run as root, whom missing rights do not stop.
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
