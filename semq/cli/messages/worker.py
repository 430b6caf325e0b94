"""``semq worker``: Python functions that process received documents, until SIGTERM or Ctrl-C."""

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
from semq.cli.node.broker import Limit, print_rows
from semq.cli.output.printer import Output, log_to_terminal
from semq.cli.session import ConfigOption, NodeOption, Session, on_node, url_of

FRAMES_MAX = 8  # innermost frames of a traceback that are printed
group = typer.Typer()


@group.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    app: Annotated[str | None, typer.Option(metavar="MODULE[:NAME]", help="Module of the handlers.")] = None,
    node: NodeOption = None,
    config: ConfigOption = None,
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Concurrent functions.")] = 4,
    user: Annotated[str, typer.Option(help="A user of the institution; the institution itself by default.")] = "",
    grace: Annotated[
        float, typer.Option(metavar="S", min=0.0, help="Time for running functions after a stop signal.")
    ] = 30.0,
) -> None:
    """Process received documents by the functions of an application; failing ones go to `semq failed list`."""
    if context.invoked_subcommand is not None:
        return
    if app is None:
        raise typer.BadParameter("name the module of the handlers", param_hint="--app")
    try:
        handlers = find_handlers(app)
    except NoApplication as error:
        for line in own_frames(error.__cause__):
            Output(as_json=False).notice(line)
        raise
    log_to_terminal()
    asyncio.run(_run(url_of(node, config), handlers, concurrency, user, grace))


@group.command("list")
@on_node
async def list_(session: Session, user: str = "", limit: Limit = 200) -> None:
    """List the consumers of this institution's inboxes: workers and other applications."""
    await print_rows(session, "worker.list", None, f"semq.inbox.{user}" if user else "", limit)


async def _run(url: str, handlers: Handlers, concurrency: int, user: str, grace_s: float) -> None:
    async with Client(url) as client:
        running = Worker(client, handlers, concurrency=concurrency, user=user)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        out = Output(as_json=False)
        out.line(f"ready {running.tag}: " + ", ".join("/".join(kind) for kind in handlers.kinds))
        await running.run(grace_s)
    out.line(f"stopped: {running.done} done, {running.failed} set aside")


def find_handlers(app: str) -> Handlers:
    """Return the handlers that ``MODULE`` or ``MODULE:NAME`` names. Raises NoApplication."""
    module_name, _, name = app.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the caller's folder, as with `python -m`
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # any error of the module while it is imported
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise NoApplication(f"{module_name} cannot be imported: {kind}{error}.") from error
    found = getattr(module, name, None) if name else _only(module)
    if not isinstance(found, Handlers):
        raise NoApplication(f"{app} has no semq.app.Handlers.")
    return found


def _only(module: object) -> Handlers | None:
    return next((value for value in vars(module).values() if isinstance(value, Handlers)), None)


def own_frames(error: BaseException | None) -> Iterator[str]:
    """Return the lines of a traceback in the application, without those of SEMQ and of the import itself."""
    if error is None:
        return
    found = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_of_import(frame.filename)]
    lines = traceback.format_list(found[-FRAMES_MAX:])
    # a syntax error has lines with the file, the line and the position
    lines += traceback.format_exception_only(error)[:-1]
    for part in lines:
        yield from part.rstrip("\n").split("\n")


def _is_of_import(file: str) -> bool:
    return file.startswith("<frozen ") or file in (__file__, importlib.__file__)
