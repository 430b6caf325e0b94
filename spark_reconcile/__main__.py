"""``python -m spark_reconcile``, and what ``spark-submit`` is given: the command line of the reconciliation."""

import sys

from spark_reconcile.commands import main

if __name__ == "__main__":
    sys.exit(main())
