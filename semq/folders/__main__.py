"""``python -m semq.folders --config FILE``."""

import sys

from semq.imports import lasting_imports

if __name__ == "__main__":
    with lasting_imports():
        from semq.folders.process import main

    sys.exit(main())
