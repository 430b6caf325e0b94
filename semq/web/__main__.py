"""The program ``python -m semq.web --config FILE``."""

import sys

from semq.imports import lasting_imports

if __name__ == "__main__":
    with lasting_imports():
        from semq.web.process import main

    sys.exit(main())
