"""``semq reconcile``: the nightly reconciliation, whose command line is ``spark_reconcile.commands``.

All arguments are passed on unchanged, so there is one grammar and one table of exit statuses. It needs Arrow and Spark,
which only the ``spark`` group of requirements installs.
"""

from importlib.util import find_spec

import typer

from semq.cli.errors import NoSpark

NEEDED = ("pyarrow", "pyspark")


def reconcile(context: typer.Context) -> None:
    """Compare the ledgers of senders, hub and receivers: extract, collect, run, diff, backfill, apply (--help)."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise NoSpark(missing=" ".join(missing))
    from spark_reconcile.commands import main

    raise typer.Exit(main(context.args or ["--help"]))
