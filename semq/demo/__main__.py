"""``python -m semq.demo``. Exit status 0 only if nothing was lost or duplicated and every queue is empty."""

import sys

from semq.demo.scenario import main

if __name__ == "__main__":
    sys.exit(main())
