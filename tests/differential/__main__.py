"""``./run differential``: the same operations on a node and on Debian's RabbitMQ, every reply compared.

    ./run differential [--lots N] [--seed N] [--only TEXT] [--node PORT] [--rabbitmq PORT] [--root DIR] [--record]

Recorded versions: the one of this Debian, and with ``--root DIR`` the one of Debian 13, which is installed in DIR if it
is not there (``bench/rabbitmq/debian.py``).

Exit status 0: no difference except the known ones (``differences``); 1: other differences, each printed with both
transcripts; 69: RabbitMQ is not installed.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from difflib import unified_diff
from pathlib import Path

from bench.lone_node import node
from bench.rabbitmq.debian import install
from bench.rabbitmq.server import PROGRAM, is_installed, rabbitmq
from tests.differential.chance import draw
from tests.differential.differences import known_differences
from tests.differential.pipelines import all_answers, differs
from tests.differential.player import Player, Script
from tests.differential.recordings import record, version_of
from tests.differential.scripts import SCRIPTS, removals_for

EXIT_UNAVAILABLE = 69


def perform(port: int, script: Script) -> list[str]:
    """Return a script's transcript on one broker; remove the objects that it creates before and after it."""
    removals = list(removals_for(script))
    Player(port).play(removals, is_quick=True)
    try:
        return Player(port).play(script)
    finally:
        Player(port).play(removals, is_quick=True)


def main(argv: list[str] | None = None) -> int:
    """Compare the transcripts; return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run differential", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--lots", type=int, default=20, metavar="N", help="number of random scripts (20)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the first random script (1)")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="play only scripts whose name contains TEXT, and the random ones"
    )
    parser.add_argument("--node", type=int, metavar="PORT", help="port of a running node (default: start one)")
    parser.add_argument("--rabbitmq", type=int, metavar="PORT", help="port of a running RabbitMQ (default: start one)")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="start the RabbitMQ of Debian 13 in DIR (needs root and debootstrap)"
    )
    parser.add_argument(
        "--record", action="store_true", help="write the answers of RabbitMQ to the file of its version"
    )
    arguments = parser.parse_args(argv)
    if arguments.record and arguments.only:
        parser.error("--record replaces the answers to all scripts: leave out --only")
    if arguments.root is not None:
        install(arguments.root.absolute())
    elif arguments.rabbitmq is None and not is_installed():
        print(f"differential: RabbitMQ is not installed ({PROGRAM}; Debian: apt-get install "
              "rabbitmq-server). For a running one: --rabbitmq PORT (guest, guest).", file=sys.stderr)  # fmt: skip
        return EXIT_UNAVAILABLE
    scripts = {name: script for name, script in SCRIPTS.items() if arguments.only in name}
    scripts |= {f"random {seed}": draw(seed) for seed in range(arguments.seed, arguments.seed + arguments.lots)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semq-differential-")))
        rabbitmq_port = arguments.rabbitmq or stack.enter_context(
            rabbitmq(None if arguments.root is None else arguments.root.absolute())
        )
        node_port = arguments.node or stack.enter_context(node(folder))
        return _compare(scripts, node_port, rabbitmq_port, arguments.record)


def _compare(scripts: dict[str, Script], node_port: int, rabbitmq_port: int, must_record: bool) -> int:
    version, answers_of_rabbitmq, unexpected = version_of(rabbitmq_port), {}, 0
    known = known_differences(version)
    for name, script in scripts.items():
        answers_of_rabbitmq[name] = perform(rabbitmq_port, script)
        lines = perform(node_port, script)
        reason = known.get(name)
        if lines != answers_of_rabbitmq[name] and reason is None:
            unexpected += 1
            print(f"\n{name}: differs")
            print("\n".join(unified_diff(answers_of_rabbitmq[name], lines, "RabbitMQ", "node", n=0, lineterm="")))
        elif lines == answers_of_rabbitmq[name] and reason is not None:
            unexpected += 1
            print(f"\n{name}: no longer differs, although ``differences`` states a reason: {reason}")
    pipelines, answered = all_answers(rabbitmq_port), all_answers(node_port)
    for name, answers in pipelines.items():
        if differs(answers, answered[name]):
            unexpected += 1
            print(f"\n{name}: differs\n  RabbitMQ: {answers}\n  node: {answered[name]}")
    if must_record:
        record(version, {name: lines for name, lines in answers_of_rabbitmq.items() if name in SCRIPTS}, pipelines)
    on_purpose = sum(name in known for name in scripts)
    print(
        f"\nRabbitMQ {version}: {len(scripts)} scripts, {len(pipelines)} pipelines: {unexpected} differ unexpectedly,"
        f" {on_purpose} on purpose"
    )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
