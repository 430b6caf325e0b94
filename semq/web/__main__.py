"""``python -m semq.web --config FILE``."""

import sys

from semq.web.process import main

if __name__ == "__main__":
    sys.exit(main())
