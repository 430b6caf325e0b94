"""``python -m semq.demo``."""

import sys

from semq.demo.scenario import main

if __name__ == "__main__":
    sys.exit(main())
