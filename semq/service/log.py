"""Logs on standard error, those of libraries included: JSON with one event per line, or a form for people.

Foreign text can neither forge a line nor control a terminal: every text passes ``semq.foreign_text``.
"""

import asyncio
import logging
import sys
import traceback
from collections.abc import Mapping
from typing import TextIO

import structlog

from semq.config.sections import LogSection
from semq.foreign_text import in_json, shown, shown_lines


def set_up(settings: LogSection, node: str) -> None:
    """Configure structlog and the standard library's logging for this process."""
    level = getattr(logging, settings.level.upper())
    as_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # The default formatter may show variables, with passwords and bodies.
    console = structlog.dev.ConsoleRenderer(exception_formatter=plain_traceback)
    json_renderers: list[structlog.typing.Processor] = [structlog.processors.format_exc_info, render_json]
    renderers = json_renderers if as_json else [shown_values, console]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for verbose_library in ("apscheduler", "alembic", "asyncio"):
        logging.getLogger(verbose_library).setLevel(logging.WARNING)
    logging.getLogger("apscheduler.executors.default").addFilter(is_worth_reporting)
    structlog.contextvars.bind_contextvars(node=node)


def is_worth_reporting(record: logging.LogRecord) -> bool:
    """Return False for APScheduler's report of a job that was cancelled because its node stops."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def render_json(logger: object, name: str, event: structlog.typing.EventDict) -> str:
    """Return a line as JSON that is safe on a terminal."""
    rendered = structlog.processors.JSONRenderer(ensure_ascii=False)(logger, name, event)
    return in_json(rendered if isinstance(rendered, str) else rendered.decode())


def shown_values(logger: object, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Return an event with every text as one safe line."""
    return {key: _shown(value) for key, value in event.items()}


def _shown(value: object) -> object:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, Mapping):
        return {_shown(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not _is_exc_info(value):
        return list(map(_shown, value))
    return value


def _is_exc_info(value: list[object] | tuple[object, ...]) -> bool:
    return len(value) == 3 and isinstance(value[1], BaseException)


def plain_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback without variables. Its lines are indented, so that none looks like an event."""
    lines = shown_lines("".join(traceback.format_exception(*exc_info)).rstrip("\n"))
    stream.write("".join(f"\n    {line}" for line in lines))
