"""The log of a node, in a process of its own."""

import re
import subprocess
import sys

import pytest

LOGGED = """
import logging, sys
import structlog
from semq.config.sections import LogSection
from semq.service.log import set_up

set_up(LogSection(format=sys.argv[1]), "1.10008")
password = "".join(("hun", "ter2"))
try:
    1 / len("")
except ZeroDivisionError:
    structlog.get_logger("semq").exception("failed")
    logging.getLogger("library").exception("failed too")

bad = "x\\x1b[2J\\n2031 [info] forged\\u202e\\x9b\\ud800"
log = structlog.get_logger("semq")
log.warning("refused", reason=bad, inside={"key": [bad]}, pair=(bad, 1))
logging.getLogger("library").warning("it says %s", bad)
try:
    raise ValueError(bad)
except ValueError:
    log.exception("failed", error=bad)
"""


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_log_shows_no_variables_and_foreign_text_neither_controls_a_terminal_nor_forges_a_line(format: str) -> None:
    """Variables contain passwords and bodies."""
    done = subprocess.run([sys.executable, "-c", LOGGED, format], capture_output=True, timeout=60, check=True)
    output = done.stderr.decode()
    assert output.count("ZeroDivisionError: ") == 2
    assert "1.10008" in output
    assert "hunter2" not in output
    colours = re.sub(r"\x1b\[[0-9;]*m", "", output) if format == "console" else output
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", colours), colours
    assert not [line for line in output.splitlines() if line.startswith("2031")]
    assert output.count("forged") >= 5


ENDED = """
import asyncio
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from semq.config.sections import LogSection
from semq.service.log import set_up

async def wrong():
    raise ValueError("wrong")

async def main():
    set_up(LogSection(format="json"), "1.10008")
    scheduler, begun = AsyncIOScheduler(), asyncio.Event()

    async def long():
        begun.set()
        await asyncio.Event().wait()

    for job in (wrong, long):
        scheduler.add_job(job)
    scheduler.start()
    await begun.wait()
    scheduler.shutdown(wait=False)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

asyncio.run(main())
"""


def test_a_job_that_ends_with_its_node_is_no_error() -> None:
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=60, check=True)
    assert [line.count("ValueError: wrong") for line in done.stderr.splitlines()] == [1]
