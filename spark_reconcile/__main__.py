"""The command line of the reconciliation, for ``python -m spark_reconcile`` and ``spark-submit``."""

import sys

from spark_reconcile.commands import main

if __name__ == "__main__":
    sys.exit(main())
