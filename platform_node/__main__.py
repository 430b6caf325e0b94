"""``python -m platform_node --config FILE``: run the hub in the foreground."""

import sys

from semq.imports import lasting_imports

if __name__ == "__main__":
    with lasting_imports():
        from platform_node.node import HubNode
        from semq.service.process import main

    sys.exit(main("platform", HubNode))
