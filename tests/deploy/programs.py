"""Programs that only tests need. ``./run setup test`` takes them out of packages of Debian."""

import os
import shutil
import sys
from pathlib import Path


def path_of(name: str) -> str | None:
    """Return the path of a program in the environment or on this machine."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"]))


PROMTOOL, KUBECTL, PGBOUNCER = path_of("promtool"), path_of("kubectl"), path_of("pgbouncer")
