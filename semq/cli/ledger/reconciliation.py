"""``semq reconcile``: the nightly reconciliation, whose own command line is ``spark_reconcile.commands``.

Everything behind the word is passed on as it stands, so there is one grammar and one table of exit statuses. It needs
Arrow and Spark, which only the ``spark`` group of requirements brings.
"""

from importlib.util import find_spec

import typer

from semq.cli.errors import NoSpark

NEEDED = ("pyarrow", "pyspark")


def reconcile(context: typer.Context) -> None:
    """Compare what sender, hub and receiver believe: extract, collect, run, diff, backfill, apply (--help)."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise NoSpark(missing=" ".join(missing))
    from spark_reconcile.commands import main

    raise typer.Exit(main(context.args or ["--help"]))
