"""Build the site into var/site. The status is 0 only if no link is broken and nothing else is to be said."""

import os
import sys
from pathlib import Path

from documentation.sources import ROOT

SETTINGS = Path(__file__).parent / "mkdocs.yml"


def main() -> int:
    """Build the site; return the exit status."""
    os.chdir(ROOT)  # mkdocs.yml names files and modules from here
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    sys.path.insert(0, str(ROOT))
    from mkdocs.__main__ import cli

    status = cli.main(
        ["build", "--strict", "--clean", "--config-file", str(SETTINGS), *sys.argv[1:]], standalone_mode=False
    )
    if not status:
        print(f"The site is in {ROOT / 'var' / 'site' / 'index.html'}.")
    return int(status or 0)


if __name__ == "__main__":
    sys.exit(main())
