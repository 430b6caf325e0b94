"""``python -m local_node --config FILE``: run an institution's node in the foreground."""

import sys

from local_node.node import LocalNode
from semq.service.process import main

if __name__ == "__main__":
    sys.exit(main("local", LocalNode))
