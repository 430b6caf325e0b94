"""``python -m semq.demo``: the process and its exit status."""

import asyncio
import json
import sys
from dataclasses import asdict

from rich.console import Console

from semq.demo.options import read_options
from semq.demo.scenario import run
from semq.errors import BadInput, SemqError

EXIT_GOOD, EXIT_BAD, EXIT_USAGE, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 2, 69, 130


def main(argv: list[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    options = read_options(argv)
    console = Console(stderr=options.json, highlight=False)
    try:
        counts, reconciled = asyncio.run(run(options, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; the nodes have been stopped")
        return EXIT_INTERRUPTED
    except SemqError as error:
        print(f"demo: {error.advice()}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, BadInput) else EXIT_UNAVAILABLE
    if reconciled is not None:
        counts |= {"ok": counts["ok"] and reconciled.is_good, "reconcile": asdict(reconciled)}
    if options.json:
        print(json.dumps(counts), flush=True)
    return EXIT_GOOD if counts["ok"] else EXIT_BAD


if __name__ == "__main__":
    sys.exit(main())
