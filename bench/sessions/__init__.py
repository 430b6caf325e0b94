"""``./run bench sessions``: many institutions at rest.

| module  | subject                                                                     |
|---------|-----------------------------------------------------------------------------|
| online  | ``--institutions N``: institutions that are online at one process of the hub |
| virtual | ``--virtual N``: local nodes of institutions in one virtual server          |
| process | programs as processes: their start, memory and processor time               |
"""

from bench import cli
from bench.sessions import online, virtual

IDLE_S = 60.0


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("sessions", "\n\n".join((online.__doc__ or "", virtual.__doc__ or "")))
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--institutions", type=cli.count, metavar="N", help="institutions that are online at one hub")
    kinds.add_argument("--virtual", type=cli.count, metavar="N", help="institutions in one virtual server")
    parser.add_argument("--idle", type=cli.positive, default=IDLE_S, metavar="S", help=f"seconds at rest ({IDLE_S:g})")
    arguments = parser.parse_args(argv)
    kind = online if arguments.institutions else virtual
    return cli.in_folder(
        lambda folder: kind.run(folder, arguments), arguments, lambda result: kind.SUMMARY.format(**result)
    )
