"""``semq worker``: process received documents by Python functions until SIGTERM or Ctrl-C; ``semq worker list``."""

import asyncio
import importlib
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Annotated

import typer

from semq.app import Client, Handlers
from semq.app.worker import Worker
from semq.cli.errors import NoApplication
from semq.cli.node.broker import Limit, print_pages
from semq.cli.output.printer import Output, log_to_terminal
from semq.cli.session import ConfigOption, NamedNode, NodeOption, Session, named_node, on_node

FRAMES_MAX = 8  # printed frames of a traceback, the innermost ones
group = typer.Typer()
InboxUser = Annotated[str, typer.Option(metavar="USER", help="Only the inbox of this user of the institution.")]


@group.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    app: Annotated[
        str | None, typer.Option(metavar="MODULE[:NAME]", help="Module of the handlers (semq.app.Handlers).")
    ] = None,
    node: NodeOption = None,
    config: ConfigOption = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=1000, help="Documents that are processed at the same time.")
    ] = 4,
    user: Annotated[str, typer.Option(help="User whose inbox is read; default: the institution itself.")] = "",
    grace: Annotated[
        float, typer.Option(metavar="S", min=0.0, help="Seconds for running functions to end after a stop signal.")
    ] = 30.0,
) -> None:
    """Process received documents by the functions of an application. A document whose function fails is parked: `semq
    failed list`.
    """
    if context.invoked_subcommand is not None:
        return
    if app is None:
        raise typer.BadParameter("Name the module of the handlers.", param_hint="--app")
    try:
        handlers = import_handlers(app)
    except NoApplication as error:
        for line in application_traceback(error.__cause__):
            Output(as_json=False).notice(line)
        raise
    log_to_terminal()
    asyncio.run(_run(named_node(node, config), handlers, concurrency, user, grace))


@group.command("list")
@on_node
async def list_(session: Session, user: InboxUser = "", limit: Limit = 200) -> None:
    """List the consumers of this institution's inboxes: workers and other receiving applications."""
    await print_pages(session, "worker.list", None, f"semq.inbox.{user}" if user else "", limit)


async def _run(node: NamedNode, handlers: Handlers, concurrency: int, user: str, grace_s: float) -> None:
    async with Client(node.url) as client:
        node.check(client)
        running = Worker(client, handlers, concurrency=concurrency, user=user)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        out = Output(as_json=False)
        out.line(f"ready {running.tag}: " + ", ".join("/".join(kind) for kind in handlers.kinds))
        await running.run(grace_s)
    out.line(f"stopped: {running.done} done, {running.failed} parked")


def import_handlers(app: str) -> Handlers:
    """Import ``MODULE`` or ``MODULE:NAME`` and return its handlers. Raises NoApplication."""
    module_name, _, name = app.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the caller's folder, as with `python -m`
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # any error of the module while it is imported
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise NoApplication(f"{module_name} cannot be imported: {kind}{error}.") from error
    handlers = getattr(module, name, None) if name else _first_handlers(module)
    if not isinstance(handlers, Handlers):
        raise NoApplication(f"{app} has no semq.app.Handlers.")
    return handlers


def _first_handlers(module: object) -> Handlers | None:
    return next((value for value in vars(module).values() if isinstance(value, Handlers)), None)


def application_traceback(error: BaseException | None) -> Iterator[str]:
    """Yield the lines of a traceback, without frames of this module and of Python's import.

    The last line is left out: the error of the command contains it.
    """
    if error is None:
        return
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_of_import(frame.filename)]
    lines = traceback.format_list(frames[-FRAMES_MAX:])
    # A syntax error has lines before the last one: its file, its text and its position.
    lines += traceback.format_exception_only(error)[:-1]
    for entry in lines:
        yield from entry.rstrip("\n").split("\n")


def _is_of_import(file: str) -> bool:
    return file.startswith("<frozen ") or file in (__file__, importlib.__file__)
