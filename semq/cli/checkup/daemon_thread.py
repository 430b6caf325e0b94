"""A call in a thread that does not delay the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """Return the result of a function that may hang.

    Python joins the threads of ``asyncio.to_thread`` before the process ends, so a call that hangs would keep the
    process running.
    """
    result: Future[T] = Future()
    # From now on the future cannot be cancelled: a time limit of the caller ends only the caller's wait.
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the wait below raises the error
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)
