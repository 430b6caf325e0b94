"""A program for ``test_client``: ends with status 7, or waits for a signal."""

import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    print("started", Path.cwd(), os.environ["NAME"], *sys.argv[1:], flush=True)
    print("to the log", file=sys.stderr, flush=True)
    if sys.argv[1] == "wait":
        signal.pause()
    sys.exit(7)
