"""Processes that the server starts: output, folder, variables, exit status, signals."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from semq.installation.process import wait_for_exit
from tests.prepared.client import PreparedProcess
from tests.waiting import until_sync

Start = Callable[[str], PreparedProcess]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start(argument: str) -> PreparedProcess:
        with (tmp_path / "log").open("ab") as log:
            return PreparedProcess(
                [sys.executable, "-P", "-m", "tests.prepared.sample", argument],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=tmp_path,
                env={**os.environ, "NAME": "value"}, start_new_session=True, preexec_fn=None,
            )  # fmt: skip

    return start


def test_a_process_has_its_own_output_folder_variables_and_status(start: Start, tmp_path: Path) -> None:
    process = start("end")
    with process.stdout as output:
        assert output.read().decode().split() == ["started", str(tmp_path), "value", "end"]
    assert process.wait(60) == 7
    assert process.poll() == process.wait() == 7
    assert (tmp_path / "log").read_text() == "to the log\n"
    until_sync(lambda: not Path(f"/proc/{process.pid}").exists())


async def test_a_process_runs_until_a_signal_ends_it(start: Start) -> None:
    first, second = start("wait"), start("wait")
    for process, number in ((first, signal.SIGKILL), (second, signal.SIGTERM)):
        with process.stdout as output:
            assert output.readline().startswith(b"started ")
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            assert os.getsid(process.pid) == process.pid
            process.send_signal(number)
            assert await wait_for_exit(process) == -number  # type: ignore[arg-type]
            process.kill()
