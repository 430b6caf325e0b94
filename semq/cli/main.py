"""The command ``semq``: its groups, errors as one line on standard error, exit statuses for scripts.

| status | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| 0      | done                                                                                |
| 1      | refused, or the answer is no: bad input, a document that ended undelivered          |
| 2      | wrong usage: unknown command or option, missing argument                            |
| 69     | unavailable: node or database unreachable, no answer or no outcome in time          |
| 78     | configuration unreadable or wrong, database of another version, login refused       |
| 130    | interrupted                                                                         |
| others | ``semq check``: 1, 2 and 3 are verdicts, see ``monitoring.check``;                  |
|        | ``semq reconcile``: 3, 4, 5, 7 and 65, see spark_reconcile/README.md                |
"""

import sys
from collections.abc import Callable, Sequence

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]  # `semq completion` replaces Typer's options

from semq.cli.errors import EXIT_CONFIG, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_UNAVAILABLE
from semq.cli.groups import rows_for
from semq.cli.options import parameters
from semq.cli.output.printer import complain, escape_unprintable_characters
from semq.errors import Misconfigured, SemqError, Unavailable, unusable_path_of

HELP = """Store-and-forward delivery of business documents between institutions.

Name the node by --node amqp://user:password@host:port or by --config FILE (its configuration), or set one of the
variables SEMQ_NODE and SEMQ_CONFIG. Acts are recorded under your name at the operating system, or that in SEMQ_PERSON
(`semq user`). Results go to standard output, all other text to standard error. With --json, the result is one JSON
value.
"""
EPILOG = (
    "Exit status: 0 done; 1 refused, or the answer is no; 2 wrong usage; 69 node or database unavailable, or no outcome"
    " in time; 78 wrong configuration; 130 interrupted. For `semq check`, 1 is warning, 2 critical, 3 unknown."
    " `semq reconcile` has more."
)


def make(first_word: str | None = None) -> typer.Typer:
    """Return the program for a command line: with the command that the first word names, or with all commands."""
    program = typer.Typer(
        name="semq",
        cls=parameters.ParsedGroup,
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    completion_init()
    program.callback()(lambda: None)  # without a callback Typer makes a single command the whole program
    groups, top_commands = rows_for(first_word)
    for group in groups:
        program.add_typer(
            group.load(),
            name=group.name,
            help=group.help,
            no_args_is_help=True,
            hidden=group.hidden,
            cls=parameters.ParsedGroup,
        )
    for command in top_commands:
        program.command(cls=parameters.ParsedCommand, **command.settings)(command.load())
    return program


def run(argv: Sequence[str] | None = None, program: Callable[[str | None], Callable[..., object]] | None = None) -> int:
    """Run one command and return its exit status.

    ``argv``: words after ``semq``; None: from ``sys.argv``. ``program``: used instead of ``make`` unless it is
    None.
    """
    escape_unprintable_characters()
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        (program or make)(words[0] if words else None)(args=words, prog_name="semq")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_REFUSED
    except SemqError as error:
        complain(error.advice())
        return exit_status_of(error)
    except OSError as error:
        if (unusable_path := unusable_path_of(error)) is None:
            raise
        complain(unusable_path.advice())
        return exit_status_of(unusable_path)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def exit_status_of(error: SemqError) -> int:
    """Return the exit status for an error."""
    if isinstance(error, Misconfigured):
        return EXIT_CONFIG
    return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_REFUSED
