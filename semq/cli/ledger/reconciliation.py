"""``semq reconcile``: the nightly reconciliation, by ``spark_reconcile.commands``.

It needs the ``spark`` group of requirements.
"""

from importlib.util import find_spec

import typer

from semq.cli.errors import NoSpark

REQUIRED_PACKAGES = ("pyarrow", "pyspark")


def reconcile(context: typer.Context) -> None:
    """Compare the ledgers of senders, hub and receivers: extract, collect, run, diff, backfill, apply. `semq reconcile
    --help` describes these commands.
    """
    missing = [name for name in REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        raise NoSpark(missing=" ".join(missing))
    from spark_reconcile.commands import main

    raise typer.Exit(main(context.args or ["--help"]))
