"""The whole command: groups, errors as one line on standard error, exit statuses for scripts.

| status | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| 0      | done                                                                                |
| 1      | refused, or the answer is no: bad input, a document that ended undelivered          |
| 2      | usage: unknown command or option, missing argument                                  |
| 69     | unavailable: node or database not reached, no answer or no outcome in time          |
| 78     | configuration: unreadable or wrong, a database of another version, login refused    |
| 130    | interrupted                                                                         |
| others | only of ``semq reconcile``: 3, 4, 5, 7 and 65, see spark_reconcile/README.md        |
"""

import sys
from collections.abc import Sequence

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]  # its own options would crowd ours

from semq.cli.groups import chosen
from semq.cli.options import parameters
from semq.cli.output.printer import complain, escape_unprintable_characters
from semq.errors import Misconfigured, SemqError, Unavailable, unusable

EXIT_NO, EXIT_UNAVAILABLE, EXIT_CONFIG, EXIT_INTERRUPTED = 1, 69, 78, 130

HELP = """Store-and-forward delivery of business documents between institutions.

A node is named by --node amqp://user:password@host:port, by --config FILE (its own configuration), or by the variables
SEMQ_NODE or SEMQ_CONFIG. Data goes to standard output, other text to standard error; --json prints one JSON value.
"""
EPILOG = "Exit status: 0 done, 1 no or refused, 2 usage, 69 not now, 78 settings, 130 interrupted; reconcile: more."


def make(first: str | None = None) -> typer.Typer:
    """Return the commands for a command line with this first word; None: all commands."""
    whole = typer.Typer(
        name="semq",
        cls=parameters.ParsedGroup,
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    completion_init()
    whole.callback()(lambda: None)  # otherwise Typer makes a single command the whole program
    groups, tops = chosen(first)
    for group in groups:
        whole.add_typer(
            group.load(),
            name=group.name,
            help=group.help,
            no_args_is_help=True,
            hidden=group.hidden,
            cls=parameters.ParsedGroup,
        )
    for top in tops:
        whole.command(cls=parameters.ParsedCommand, **top.settings)(top.load())
    return whole


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    escape_unprintable_characters()
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        make(words[0] if words else None)(args=words, prog_name="semq")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_NO
    except SemqError as error:
        complain(error.advice())
        return status_of(error)
    except OSError as error:
        if (known := unusable(error)) is None:
            raise
        complain(known.advice())
        return status_of(known)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def status_of(error: SemqError) -> int:
    """Return the exit status for an error."""
    if isinstance(error, Misconfigured):
        return EXIT_CONFIG
    return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_NO
