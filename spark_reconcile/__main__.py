"""The command line of the reconciliation, for ``python -m spark_reconcile`` and ``spark-submit``."""

import os
import sys

from spark_reconcile.commands import flush, main

if __name__ == "__main__":
    status = main()
    if "pyspark" not in sys.modules:  # a command without Spark has nothing to stop
        # At the end of the interpreter, threads of Arrow (26.0.1) sometimes abort a process that has done its work
        # (apache/arrow#34314): an extract would pass for failed, and be repeated.
        flush()
        os._exit(status)
    sys.exit(status)
