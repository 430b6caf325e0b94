"""``./run bench sessions``: many institutions, at rest.

``--institutions N``: they are online at one process of the hub (``online``). ``--virtual N``: their local nodes are in
one virtual server (``virtual``). ``process`` starts the programs, and reads what they use.
"""

from bench import cli
from bench.sessions import online, virtual

IDLE_S = 60.0


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("sessions", "\n\n".join((online.__doc__ or "", virtual.__doc__ or "")))
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--institutions", type=cli.count, metavar="N", help="institutions that are online at one hub")
    which.add_argument("--virtual", type=cli.count, metavar="N", help="institutions in one virtual server")
    parser.add_argument("--idle", type=cli.rate, default=IDLE_S, metavar="S", help=f"seconds at rest ({IDLE_S:g})")
    arguments = parser.parse_args(argv)
    kind = online if arguments.institutions else virtual
    return cli.in_folder(
        lambda folder: kind.run(folder, arguments), arguments, lambda found: kind.SUMMARY.format(**found)
    )
