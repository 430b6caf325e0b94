"""``python -m local_node --config FILE``: run an institution's node in the foreground."""

import sys

from semq.imports import lasting_imports

if __name__ == "__main__":
    with lasting_imports():
        from local_node.node import LocalNode
        from semq.service.process import main

    sys.exit(main("local", LocalNode))
