"""A call in a thread that does not delay the end of the process. Used by the checks of ``doctor``."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """Return the result of a function that may hang.

    Python joins the threads of ``asyncio.to_thread`` before it ends the process. If a database server or a file system
    hung, the command would print its findings and then hang, too.
    """
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # cannot be cancelled any more: the time limit cancels only the wait

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the wait below raises the error
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)
