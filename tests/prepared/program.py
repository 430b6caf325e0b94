"""``python -P tests/prepared/program.py MODULE ...``: run a module as ``python -m`` does.

The nodes that this module starts come from the server of prepared processes (``server``). This program is started by
its path and not with ``-m``, because callers start it in folders where ``tests`` cannot be imported.
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
