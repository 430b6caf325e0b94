"""``python -m semq.demo``: run the demo; exit status 0 only if nothing was lost or duplicated and every queue is
clean.
"""

import sys

from semq.demo.play import main

if __name__ == "__main__":
    sys.exit(main())
