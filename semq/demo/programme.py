"""What the demo says before it begins and after it has ended."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from semq.demo.options import SAMPLES, Options
from semq.demo.stage import HUB, SENDER, Place

_NEXT = """\
What to try next
  ./run demo --stay                          leave the three nodes running, then in another terminal:
    ./run semq msg send --node {sender} --to 56001 --type order --file README.md --wait delivered
    ./run semq msg list --node {sender}
  ./run demo --count 500                     more documents; kill -9 any of the three processes meanwhile
  ./run demo --documents FOLDER              your own files
  ./run demo --inject                        a few defects planted, which the reconciliation must find
  ./run node platform --config examples/config/platform.toml    the first of three nodes of your own: README.md
"""
_NEXT_STAYING = """\
What to try next, in another terminal
  ./run semq msg send --node {sender} --to 56001 --type order --file README.md --wait delivered
  ./run semq msg list --node {sender}
  ./run semq node status --node {hub}
"""


def introduction(console: Console, options: Options, folder: Path) -> None:
    """Where it takes place."""
    source = "the sample documents of examples/documents" if options.documents == SAMPLES else str(options.documents)
    fate = "kept" if options.keep else "removed at the end but for the report; --keep leaves it"
    console.print(f"SEMQ demo: 10008 sends {source} to 56001 through a hub.", markup=False)
    console.print(f"Everything lies in {folder} ({fate}).", markup=False, soft_wrap=True)


def hints(console: Console, options: Options, places: Mapping[str, Place]) -> None:
    """Where to go from here."""
    if options.stay:
        text = _NEXT_STAYING.format(sender=places[SENDER].url, hub=places[HUB].url)
    else:
        text = _NEXT.format(sender="amqp://demo:demo@127.0.0.1:PORT")
    console.print()
    console.print(text, markup=False, soft_wrap=True, end="")
