"""``python -m semq.folders --config FILE``."""

import sys

from semq.folders.process import main

if __name__ == "__main__":
    sys.exit(main())
