"""``python -P tests/prepared/program.py MODULE ...``: run a module as a program.

The server of prepared nodes (`tests.prepared.server`) starts the nodes of the program. Callers start this file by its
path, because ``tests`` cannot be imported in their folders.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))

    from semq.installation.process import NodeProcess
    from tests.prepared.client import PreparedProcess

    NodeProcess.popen = PreparedProcess  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
