"""The message after a night, taken by a mail server and a web server."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spark_reconcile.notice import send
from spark_reconcile.report.work import REPAIR_TEXT, gap_facts
from spark_reconcile.settings import MailServer, ReconcileSettings
from spark_reconcile.sources.gaps import Gap

WORK = {
    "role": "sender", "nodes": ["1.a"], "documents": 3, "verdicts": [["NOT_DELIVERED", "not delivered", 3]],
    "text": REPAIR_TEXT, "command": "semq reconcile apply --yes",
}  # fmt: skip
CALL = WORK | {
    "nodes": ["1.b"],
    "text": "Find the cause of the failure, correct it and requeue.",
    "command": "",
    "contacts": ["+86 2"],
}
ABSENT = gap_facts(Gap("1.c.1.1", date(2026, 11, 21), 40), date(2026, 11, 21))
OLD = {name: ABSENT[name] for name in ("source", "business_date", "messages")}  # as earlier versions wrote it


class _Mailbox(socketserver.StreamRequestHandler):
    """As much of a mail server as a client needs."""

    def handle(self) -> None:
        self.wfile.write(b"220 test\r\n")
        for line in self.rfile:
            command = line[:4].upper()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                content = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.letters.append(content)  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")


class _Webhook(BaseHTTPRequestHandler):
    status = 200

    def do_POST(self) -> None:
        self.server.letters.append(self.rfile.read(int(self.headers["content-length"])))  # type: ignore[attr-defined]
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class _Refusing(_Webhook):
    status = 500


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[list[bytes]]:
    server.letters = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.letters  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def result(tmp_path: Path) -> dict[str, Any]:
    summary = {"messages": 1200, "need_work": {"date": 2, "earlier": 1}, "work": [WORK, CALL], "absent": [OLD, ABSENT]}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "report.html").write_text("<p>the report</p>")
    (tmp_path / "report.zh.html").write_text("<p>报告</p>")
    return {
        "business_date": "2026-11-21",
        "outcome": "breached",
        "exit_code": 3,
        "report": str(tmp_path / "report.html"),
    }


def settings_in(folder: Path, **values: Any) -> ReconcileSettings:
    return ReconcileSettings(reports=str(folder / "reports"), **values)


def posted(settings: ReconcileSettings, results: list[dict[str, Any]]) -> EmailMessage:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mailbox) as server, serving(server) as letters:
        mail = MailServer("semq@hub.example", ("ops@hub.example",), "127.0.0.1", server.server_address[1])
        assert send(replace(settings, mail=mail), results) == []
    (content,) = letters
    letter = message_from_bytes(content, policy=policy.default)
    assert isinstance(letter, EmailMessage)
    return letter


def text_of(letter: EmailMessage) -> str:
    body = letter.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def test_a_mail_says_how_many_documents_need_work_whose_it_is_and_has_the_page(
    tmp_path: Path, result: dict[str, Any]
) -> None:
    failed = {"business_date": "2026-11-20", "outcome": "refused", "exit_code": 65, "error": "SEMQ-6001"}
    letter = posted(settings_in(tmp_path, names={"1.a": "Alpha"}), [failed, result])
    assert letter["Subject"] == "SEMQ 2026-11-21: 2 of 1,200 documents need work, and 1 of earlier dates"
    text = text_of(letter)
    assert "3  1.a Alpha: not delivered (NOT_DELIVERED) 3" in text
    assert f"{REPAIR_TEXT} semq reconcile apply --yes" in text
    assert f"{CALL['text']}\n    Call +86 2." in text
    assert "40  1.c.1.1: No ledger 2026-11-21" in text
    assert f"{ABSENT['text']} semq reconcile extract --business-date 2026-11-21 --config FILE" in text
    assert "2026-11-20: refused" in text
    (page,) = letter.iter_attachments()
    assert (page.get_filename(), page.get_content()) == ("2026-11-21-report.html", "<p>the report</p>")


def test_a_mail_is_in_the_configured_language_with_the_page_in_it(tmp_path: Path, result: dict[str, Any]) -> None:
    letter = posted(settings_in(tmp_path, language="zh"), [result])
    assert letter["Subject"] == "SEMQ 2026-11-21: 1,200 份单据中有 2 份需要处理，另有较早日期的 1 份"
    assert "未送达 (NOT_DELIVERED) 3" in text_of(letter)
    (page,) = letter.iter_attachments()
    assert page.get_filename() == "2026-11-21-report.zh.html"


def test_a_mail_about_a_failed_night_has_its_error(tmp_path: Path) -> None:
    failed = {"business_date": "2026-11-20", "outcome": "failed", "exit_code": 69, "error": "SEMQ-6009: Spark is away."}
    letter = posted(settings_in(tmp_path), [failed])
    assert letter["Subject"] == "SEMQ 2026-11-20: the reconciliation failed"
    assert "SEMQ-6009: Spark is away." in text_of(letter)


def test_a_webhook_gets_the_result_as_json(tmp_path: Path, result: dict[str, Any]) -> None:
    with HTTPServer(("127.0.0.1", 0), _Webhook) as server, serving(server) as letters:
        url = f"http://127.0.0.1:{server.server_address[1]}/night"
        assert send(settings_in(tmp_path, webhook=url), [result]) == []
    (content,) = map(json.loads, letters)
    assert content == {
        **result,
        "headline": "2 of 1,200 documents need work, and 1 of earlier dates",
        "work": [WORK, CALL],
    }


def test_an_unsent_message_is_reported_and_sent_later_and_nothing_is_sent_twice(
    tmp_path: Path, result: dict[str, Any]
) -> None:
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server, serving(server):
        url = f"http://127.0.0.1:{server.server_address[1]}/night"
        mail = MailServer("semq@hub.example", ("ops@hub.example",), "127.0.0.1", 1)
        faults = send(settings_in(tmp_path, webhook=url, mail=mail), [result])
    assert ["was not sent by mail" in faults[0], "500" in faults[1]] == [True, True]
    with HTTPServer(("127.0.0.1", 0), _Webhook) as server, serving(server) as letters:
        settings = settings_in(tmp_path, webhook=f"http://127.0.0.1:{server.server_address[1]}/night")
        for _ in range(2):  # the second night has nothing new
            assert send(settings, [result]) == []
        assert len(letters) == 1
        assert send(settings, [result, {**result, "business_date": "2026-11-22", "outcome": "refused"}]) == []
    assert [json.loads(letter)["business_date"] for letter in letters] == ["2026-11-21", "2026-11-22"]
