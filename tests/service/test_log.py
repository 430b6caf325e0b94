"""What a node tells on standard error, in a process of its own: the setting up is for the whole process."""

import subprocess
import sys

import pytest

FAILS = """
import logging, sys
import structlog
from semq.config.sections import Log
from semq.service.log import set_up

set_up(Log(format=sys.argv[1]), "1.10008")
password = "".join(("hun", "ter2"))
try:
    1 / len("")
except ZeroDivisionError:
    structlog.get_logger("semq").exception("failed")
    logging.getLogger("library").exception("failed too")
"""


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_traceback_shows_no_variables(format: str) -> None:
    """Passwords and bodies are among them."""
    told = subprocess.run([sys.executable, "-c", FAILS, format], capture_output=True, text=True, timeout=60, check=True)
    assert told.stderr.count("ZeroDivisionError: ") == 2
    assert "1.10008" in told.stderr
    assert "hunter2" not in told.stderr
