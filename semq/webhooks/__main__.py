"""``python -m semq.webhooks --config FILE``."""

import sys

from semq.webhooks.process import main

if __name__ == "__main__":
    sys.exit(main())
