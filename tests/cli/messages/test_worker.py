"""``semq worker`` and ``semq failed``."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from semq.app import Client
from semq.app.worker import report
from semq.cli.messages.failed import _act
from semq.cli.output.printer import Output
from semq.cli.session import Session
from tests.app.network import Network
from tests.cli.command import environment, semq
from tests.waiting import until_sync

ROOT = Path(__file__).parents[3]


@contextmanager
def working(network: Network, record: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "semq.cli", "worker", "--node", network.receiver.url]
    command += ["--app", "tests.cli.handling", "--user", "worker"]
    variables = environment({"HANDLED": str(record), "PYTHONPATH": str(ROOT)})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT) as worker:
        assert worker.stdout is not None
        try:
            ready = worker.stdout.readline()
            assert ready.startswith(f"ready {socket.gethostname()}.{worker.pid}: "), ready
            assert "work/order/" in ready
            yield worker
        finally:
            worker.kill()


def send(network: Network, kind: str, key: str, body: bytes, content_type: str = "") -> str:
    result = semq(
        "msg", "send", "--node", network.sender.url, "--json", "--to", "56001/worker", "--domain", "work",
        "--type", kind, "--key", key, "--content-type", content_type, "--file", "-", "--allow-empty", stdin=body,
    )  # fmt: skip
    return str(result.data["lk0"])


def until_written(record: Path, *lines: str) -> None:
    until_sync(lambda: set(lines) <= set(record.read_text().splitlines() if record.exists() else []))


def failed(network: Network, count: int) -> list[dict[str, Any]]:
    """Wait until the receiver has ``count`` failed documents; return them."""
    rows: list[dict[str, Any]] = []

    def are_all() -> bool:
        rows[:] = semq("failed", "list", "--node", network.receiver.url, "--json").data
        rows[:] = [row for row in rows if row["app_key"].startswith("work/")]
        return len(rows) == count

    until_sync(are_all)
    return rows


def test_documents_are_processed_tried_again_or_parked(network: Network, tmp_path: Path) -> None:
    record = tmp_path / "record"
    node = ("--node", network.receiver.url)
    with working(network, record) as worker:
        orders = {"good": 0, "tired": 2, "bad": 9}
        for key, failures in orders.items():
            send(network, "order", key, json.dumps({"failures": failures}).encode(), "application/json")
        send(network, "order", "torn", b"{", "application/json")
        send(network, "slow", "quick", b"now")
        send(network, "slow", "late", b"never")
        send(network, "hopeless", "lost", b"")
        send(network, "nothing", "strange", b"")
        until_written(record, "done good 1", "done tired 3", "done quick")
        rows = {row["app_key"].rpartition("/")[2]: row for row in failed(network, 5)}
        assert {key: row["error"].partition(" (")[0].partition(":")[0] for key, row in rows.items()} == {
            "bad": "ValueError", "torn": "CannotRead", "late": "TimeoutError", "lost": "GiveUp", "strange": "NoHandler",
        }  # fmt: skip
        assert "(attempts 3, deliveries 1, by " in rows["bad"]["error"]
        assert 'raise ValueError(f"bad total' in rows["bad"]["error"]

        shown = semq("failed", "show", *node, "work/order//bad")
        assert "ValueError: bad total in bad" in shown.out
        assert "1.10008" in shown.out  # the sender
        listed = semq("failed", "list", *node, "--type", "order")
        assert listed.out.count("from 10008") == 2
        assert len(failed(network, 5)) == 5  # the list has not consumed them

        assert semq(
            "failed", "remove", *node, "--json", "--type", "order", "--key", "to", "--why", "sent anew"
        ).data == {"remove": [rows["torn"]["lk0"]]}
        semq("failed", "requeue", *node, rows["bad"]["lk0"])  # it fails again: its handler fails nine times
        assert {row["lk0"] for row in failed(network, 4)} >= {rows["lost"]["lk0"]}
        with patch("semq.cli.messages.failed.PAGE", 1):
            semq("failed", "remove", *node, "--all")
        failed(network, 0)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


def test_a_worker_that_is_stopped_finishes_calls_in_progress(network: Network, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with working(network, record) as worker:
        send(network, "held", "one", b"")
        until_written(record, "holds one")
        worker.send_signal(signal.SIGINT)
        (tmp_path / "go").touch()
        assert worker.stdout is not None
        assert worker.stdout.read() == "stopped: 1 done, 0 parked\n"
        assert worker.wait(60) == 0
    assert record.read_text().splitlines() == ["holds one", "done one"]


def test_documents_of_a_dead_worker_are_delivered_again(network: Network, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with working(network, record) as worker:
        send(network, "held", "again", b"")
        until_written(record, "holds again")
        worker.kill()
    (tmp_path / "go").touch()
    with working(network, record):
        until_written(record, "done again")
    assert record.read_text().splitlines().count("done again") == 1


@pytest.mark.parametrize("selection", [("--all",), ("--partner", "10008"), ("--type", "order"), ("--key", "a")])
@pytest.mark.parametrize("words", [("failed", "requeue"), ("failed", "remove"), ("held", "refuse"), ("held", "resend")])
def test_names_together_with_a_selection_are_wrong_usage(
    network: Network, words: tuple[str, str], selection: tuple[str, ...]
) -> None:
    if words[0] == "held" and selection[0] == "--partner":
        selection = ("--source", "10008")
    result = semq(*words, "1.none.1.1.1.1", *selection, "--why", "x", "--node", network.hub.url)
    assert (result.status, result.out) == (2, "")
    assert "not both" in result.err


def test_commands_with_wrong_arguments_fail(network: Network) -> None:
    node = ("--node", network.receiver.url)
    semq("worker", "--app", "no.such.module", *node).fails(78, "SEMQ-2212", "cannot be imported")
    semq("worker", "--app", "json", *node).fails(78, "SEMQ-2212")
    semq("worker", "--app", "tests.cli.handling:RECORD", *node).fails(78, "SEMQ-2212")
    semq("failed", "requeue", *node).fails(1, "SEMQ-2211")
    assert semq("failed", "show", *node, "1.none.1.1.1.1").status == 1


def test_a_report_has_error_attempts_and_the_end_of_the_traceback() -> None:
    result = report(ValueError("x" * 10), 3, 2, "host.1")
    assert result.startswith("ValueError: xxxxxxxxxx (attempts 3, deliveries 2, by host.1)\n")
    with pytest.raises(ZeroDivisionError) as caught:
        os.getpid() / 0
    assert "os.getpid() / 0" in report(caught.value, 1, 1, "")


# Module | source, text in the error, frames of the module in the traceback
MODULES = {
    "broken": ("import json\n\n\ndef use():\n    return json.lods('1')\n\n\nuse()\n", "AttributeError", 2),
    "invalid": ("def use(:\n", "SyntaxError", 0),
    "importing": ("import no_such_package_at_all\n", "No module named 'no_such_package_at_all'", 1),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_cannot_be_imported_is_reported_with_its_own_lines(name: str, tmp_path: Path) -> None:
    source, text, frames = MODULES[name]
    (tmp_path / f"{name}_{tmp_path.name}.py").write_text(source)
    with patch.object(sys, "path", [str(tmp_path), *sys.path]):
        result = semq("worker", "--app", f"{name}_{tmp_path.name}", "--node", "amqp://u:p@127.0.0.1:1")
    *shown, last = result.err.splitlines()
    assert result.status == 78
    assert last.startswith("semq: SEMQ-2212 ")
    assert text in last
    assert sum(line.startswith("  File ") for line in shown) == max(frames, 1)
    assert "importlib" not in result.err
    assert len(shown) <= 6


def test_a_module_that_does_not_exist_is_reported_in_one_line() -> None:
    semq("worker", "--app", "no_such_module_here", "--node", "amqp://u:p@127.0.0.1:1").fails(
        78, "SEMQ-2212", "No module named 'no_such_module_here'"
    )


class ForgetfulClient:
    """A client of a node with two named documents that are gone when it acts."""

    user = "app"

    async def request(self, operation: str, arguments: dict[str, Any], **_: Any) -> dict[str, Any]:
        if operation == "failed.show":
            return {"id": int(arguments["id"]), "side": "inbound", "lk0": f"lk0-{arguments['id']}"}
        return {"removed": len(arguments["ids"]) - 2}


async def test_documents_that_are_gone_are_not_reported_as_removed(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        session = Session(cast(Client, ForgetfulClient()), Output(as_json=as_json), 1.0)
        await _act(session, "failed.remove", ["1", "2", "3"], False, {}, "")
    text, _, data = capsys.readouterr().out.partition("\n")
    assert text == "1 document removed, 2 not found any more"
    assert json.loads(data)["gone"] == 2
