"""Programs for the tests of ``deploy``. ``./run setup test`` takes them out of packages of Debian."""

import shutil
import sys
from pathlib import Path


def path_of(name: str) -> str | None:
    """Return the path of a program in the environment or on this machine."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


PROMTOOL, KUBECTL = path_of("promtool"), path_of("kubectl")
