"""``./run differential``: the same operations on a node and on Debian's RabbitMQ, every reply compared.

    ./run differential [--lots N] [--seed N] [--only TEXT] [--node PORT] [--rabbitmq PORT] [--record]

Exit status 0: no difference but the known ones (``differences``); 1: others, each printed with both transcripts; 69:
there is no RabbitMQ to compare with.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from difflib import unified_diff
from pathlib import Path

from bench.lone_node import node
from bench.rabbitmq.server import PROGRAM, is_installed, rabbitmq
from tests.differential.chance import draw
from tests.differential.differences import KNOWN
from tests.differential.player import Player, Script
from tests.differential.scripts import SCRIPTS, names_in

RECORDED = Path(__file__).with_name("recorded.json")
EXIT_UNAVAILABLE = 69


def perform(port: int, script: Script) -> list[str]:
    """Return a script's transcript on one broker; everything that it may create is removed before and after."""
    remove = list(names_in(script))
    Player(port).play(remove, is_quick=True)
    try:
        return Player(port).play(script)
    finally:
        Player(port).play(remove, is_quick=True)


def main(argv: list[str] | None = None) -> int:
    """Compare the transcripts; return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run differential", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--lots", type=int, default=20, metavar="N", help="scripts drawn by lot (20)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first of them (1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only written scripts with this in their name")
    parser.add_argument("--node", type=int, metavar="PORT", help="a node that runs already")
    parser.add_argument("--rabbitmq", type=int, metavar="PORT", help="a RabbitMQ that runs already")
    parser.add_argument("--record", action="store_true", help="write down RabbitMQ's answers for machines without one")
    arguments = parser.parse_args(argv)
    if arguments.rabbitmq is None and not is_installed():
        print(f"differential: there is no RabbitMQ on this machine ({PROGRAM}); Debian has it as package "
              "rabbitmq-server. Or name one that runs: --rabbitmq PORT (guest, guest).", file=sys.stderr)  # fmt: skip
        return EXIT_UNAVAILABLE
    scripts = {name: script for name, script in SCRIPTS.items() if arguments.only in name}
    scripts |= {f"lot {seed}": draw(seed) for seed in range(arguments.seed, arguments.seed + arguments.lots)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semq-differential-")))
        theirs = arguments.rabbitmq or stack.enter_context(rabbitmq())
        ours = arguments.node or stack.enter_context(node(folder))
        return _compare(scripts, ours, theirs, arguments.record)


def _compare(scripts: dict[str, Script], ours: int, theirs: int, record: bool) -> int:
    result, different = {}, 0
    for name, script in scripts.items():
        result[name] = perform(theirs, script)
        lines = perform(ours, script)
        reason = KNOWN.get(name)
        if lines != result[name] and reason is None:
            different += 1
            print(f"\n{name}: differs")
            print("\n".join(unified_diff(result[name], lines, "RabbitMQ", "node", n=0, lineterm="")))
        elif lines == result[name] and reason is not None:
            different += 1
            print(f"\n{name}: no longer differs, although its row says that {reason}")
    if record:
        kept = {name: lines for name, lines in result.items() if name in SCRIPTS}
        RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    known = sum(name in KNOWN for name in scripts)
    print(f"\n{len(scripts)} scripts: {different} differ unexpectedly, {known} on purpose")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
