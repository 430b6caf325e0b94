"""``python -m platform_node --config FILE``: run the hub in the foreground."""

import sys

from platform_node.node import HubNode
from semq.service.process import main

if __name__ == "__main__":
    sys.exit(main("platform", HubNode))
