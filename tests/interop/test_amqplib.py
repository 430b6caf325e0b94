"""A program with amqplib of Node.js gets the answers that it expects."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.interop import amqplib

EXPECTED = {
    "named": True,
    "returned": "nobody",
    "waiting": 10,
    "taken": [2 * n for n in range(10)],
    "death": "rejected",
    "error": 404,
    "purged": 0,
}


def test_amqplib_gets_the_expected_answers(url: str) -> None:
    installed = amqplib.installed()
    script = shutil.copy(Path(amqplib.__file__).with_name("clients.js"), installed)
    done = subprocess.run(
        ["node", script, url], cwd=installed, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == EXPECTED
