"""Sending, receiving and reading messages from the command line."""

import json
import re
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from semq.app import Sent
from semq.cli import session
from semq.umx_t.attributes import ATTRIBUTES, Attribute
from tests.app.network import ABSENT, STRANGER, Network
from tests.cli.command import semq, semq_process
from tests.cli.test_output_of_commands import SimulatedNode


@pytest.fixture
def order(tmp_path: Path) -> Path:
    file = tmp_path / f"order-{uuid4()}.xml"
    file.write_bytes(b"<Order>7</Order>")
    return file


def test_a_document_goes_from_shell_to_shell(network: Network, order: Path) -> None:
    sent = semq_process(
        "msg", "send", "--to", "56001/shell", "--type", "order", "--file", str(order), "--wait", "delivered",
        "--timeout", "60", "--json", "--node", network.sender.url,
    ).data  # fmt: skip
    assert sent["outcome"] == "DELIVERED"
    assert sent["digest"] == sha256(order.read_bytes()).hexdigest()
    one = ("--user", "shell", "--count", "1", "--timeout", "60", "--json")
    received = semq("msg", "receive", *one, "--node", network.receiver.url).data
    assert (received["lk0"], received["app_key"]) == (sent["lk0"], f"/order//{order.name}")
    assert b64decode(received["body_base64"]) == order.read_bytes()
    assert received["is_intact"]
    assert (received["target"], received["order_key"], received["headers"]) == ("1.56001/shell", "", {})
    for name in (sent["lk0"], order.name):
        shown = semq("msg", "show", name, "--json", "--node", network.sender.url).data
        assert (shown["lk0"], shown["outcome"]) == (sent["lk0"], "DELIVERED")
        traced = semq("msg", "trace", name, "--json", "--node", network.sender.url).data
        assert next(line["event"] for line in traced["events"]) == "ACCEPTED"
        assert "DELIVERED" in [line["event"] for line in traced["events"]]
    words = semq("msg", "trace", sent["lk0"], "--node", network.sender.url).out
    assert "the receiver has it" in words
    traced = semq("msg", "trace", sent["lk0"], "--json", "--node", network.sender.url).data
    assert {line["node"] for line in traced["events"]} == {"1.10008", "2.hub", "1.56001"}
    result = semq("msg", "trace", sent["lk0"], "--node", network.sender.url)
    assert any("  2.hub       hub " in line for line in result.out.splitlines())
    assert any("  1.56001*    receiver " in line for line in result.out.splitlines())
    assert result.err.startswith("* passed on by 2.hub without a proof: 1.56001 has no certificate")
    alone = semq("msg", "trace", sent["lk0"], "--here", "--json", "--node", network.sender.url).data
    assert all("node" not in line for line in alone["events"])


def test_options_are_passed_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    class Recording(SimulatedNode):
        async def send(self, target: str, body: object, **arguments: Any) -> Sent:
            sent.append(arguments | {"target": target})
            return await super().send()

    monkeypatch.setattr(session, "Client", Recording)
    rows = [row for row in ATTRIBUTES if row.option]
    options = [words for row in rows if row.option != "--to" for words in option(row)]
    semq("msg", "send", "--to", "1", "--node", "simulated", stdin=b"x")
    semq("msg", "send", "--to", "56001", *options, "--node", "simulated", stdin=b"x")
    defaults, given = sent
    assert [row.option for row in rows if given[row.field] == defaults[row.field]] == []


def option(row: Attribute) -> list[str]:
    """Return the words that give an option a value other than its default."""
    if row.kind == "flag":
        return [row.option.replace("--", "--no-") if row.default else row.option]
    return [row.option, "2" if row.kind in ("", "save_fwd") else "2h" if row.kind == "moment" else "x"]


def test_a_repeat_of_a_token_says_that_nothing_was_sent(network: Network) -> None:
    send = ("msg", "send", "--to", "56001/repeats", "--token", "once", "--node", network.sender.url)
    assert semq(*send, stdin=b"x").out.endswith("  accepted\n")
    assert semq(*send, stdin=b"x").out.endswith("  was accepted before, with this token; nothing was sent\n")


def test_a_token_with_several_files_is_refused_and_nothing_is_sent(network: Network, tmp_path: Path) -> None:
    for name in ("1.xml", "2.xml"):
        (tmp_path / name).write_text(name)
    files = [word for name in ("1.xml", "2.xml") for word in ("--file", str(tmp_path / name))]
    send = ("msg", "send", "--to", "56001/several", "--token", "two", "--node", network.sender.url)
    semq(*send, *files).fails(1, "SEMQ-2219")
    assert semq(*send, stdin=b"x").out.endswith("  accepted\n")  # the token was not used: it names a new document


def test_bodies_can_go_to_files_and_come_from_a_pipe(network: Network, tmp_path: Path) -> None:
    at = {"SEMQ_NODE": network.sender.url}
    lk0 = semq("msg", "send", "--to", "56001/files", "--json", stdin=b"\0piped\xff", **at).data["lk0"]
    result = semq(
        "msg",
        "receive",
        "--user",
        "files",
        "--into",
        str(tmp_path),
        "--timeout",
        "60",
        "--json",
        "--node",
        network.receiver.url,
    )
    assert Path(result.data["file"]).read_bytes() == b"\0piped\xff"
    assert result.data["lk0"] == lk0


def test_an_empty_inbox_ends_with_status_1(network: Network) -> None:
    result = semq("msg", "receive", "--user", "idle", "--timeout", "0.3", "--json", "--node", network.receiver.url)
    assert (result.status, result.out, result.err) == (1, "", "received 0 of 1; no document arrived for 0.3 s\n")


def test_options_of_a_list_filter_it(network: Network, order: Path) -> None:
    at = ["--node", network.sender.url, "--json"]
    sent = semq("msg", "send", "--to", ABSENT, "--type", "claim", "--file", str(order), *at).data
    wanted = ["--side", "outbound", "--partner", ABSENT, "--type", "claim", "--key", order.name, "--since", "1h"]
    [row] = semq("msg", "list", *wanted, *at).data
    assert (row["lk0"], row["target"], row["size"]) == (sent["lk0"], f"1.{ABSENT}", 16)
    assert semq("msg", "list", *wanted, "--side", "inbound", *at).data == []
    table = semq("msg", "list", *wanted, "--node", network.sender.url).out
    assert row["name"] in table
    assert max(map(len, table.splitlines())) <= 80
    body = semq("msg", "body", str(row["id"]), "--node", network.sender.url)
    assert body.out.encode() == order.read_bytes()
    counts = semq("queue", "list", *at).data
    assert sum(counts["sent"].values()) >= 1
    partners = semq("queue", "partners", *at).data
    assert f"1.{ABSENT}" in [row["partner"] for row in partners]


def test_a_body_that_only_the_hub_has_is_an_error_and_not_empty(network: Network, order: Path) -> None:
    at = ["--node", network.sender.url]
    lk0 = semq("msg", "send", "--to", ABSENT, "--file", str(order), "--no-ack2", *at, "--json").data["lk0"]
    statuses = (semq("msg", "show", lk0, *at, "--json").data["ss_status"] for _ in range(500))
    assert "SS_ACK" in statuses  # the hub has the body, and this node only the row
    result = semq("msg", "body", lk0, *at)
    assert (result.status, result.out) == (1, "")
    assert "SEMQ-1225" in result.err


def test_wait_accepts_every_name_of_a_message(network: Network, order: Path) -> None:
    words = ["msg", "send", "--to", "56001", "--type", "order", "--file", str(order), "--json"]
    sent = semq(*words, "--node", network.sender.url).data
    for node in (network.sender, network.receiver):
        for name in (sent["name"], sent["lk0"], order.name, f"/order//{order.name}"):
            result = semq("msg", "wait", name, "--timeout", "60", "--node", node.url)
            assert (result.status, result.out) == (0, f"{sent['name']}  delivered\n")
    result = semq("msg", "wait", sent["name"], "--node", network.hub.url)  # a hub does not learn outcomes
    assert (result.status, "SEMQ-1304" in result.err) == (1, True)
    result = semq("msg", "trace", order.name, "--node", network.hub.url)
    assert (result.status, "only while it holds a copy" in result.err) == (1, True)


@pytest.mark.parametrize(
    "attributes", [["--save-fwd", "1"], ["--save-fwd", "1", "--no-reliable"], ["--save-fwd", "2", "--no-ack2"]]
)
def test_a_wait_for_delivery_without_a_receipt_is_refused(network: Network, order: Path, attributes: list[str]) -> None:
    words = ["msg", "send", "--to", "56001", "--file", str(order), *attributes, "--node", network.sender.url]
    result = semq(*words, "--wait", "delivered")
    assert (result.status, "SEMQ-1304 Nothing was sent" in result.err, "--ack2" in result.err) == (1, True, True)
    assert semq("msg", "show", order.name, "--node", network.sender.url).err.startswith("semq: SEMQ-1207")
    assert semq(*words).status == 0
    result = semq("msg", "wait", order.name, "--timeout", "60", "--node", network.sender.url)
    assert (result.status, "SEMQ-1304" in result.err) == (1, True)


def test_a_wait_without_an_outcome_in_time_ends_with_status_69(network: Network) -> None:
    words = ["--to", ABSENT, "--wait", "delivered", "--timeout", "1", "--node", network.sender.url]
    result = semq("msg", "send", *words, stdin=b"x")
    result.fails(69, "SEMQ-1313", "do not send it again. `semq msg wait NAME` waits longer")
    [name] = re.findall(r"\(name='([^']+)'", result.err)  # for the commands of the remedy
    assert semq("msg", "show", name, *words[-2:], "--json").data["target"] == f"1.{ABSENT}"


def test_files_after_one_whose_wait_fails_are_named_as_not_sent(network: Network, tmp_path: Path) -> None:
    files = [tmp_path / f"{uuid4()}.xml" for _ in range(3)]
    for file in files:
        file.write_text("x")
    words = ["--to", ABSENT, "--wait", "delivered", "--timeout", "1", "--node", network.sender.url]
    result = semq("msg", "send", *(f"--file={file}" for file in files), *words)
    assert result.status == 69
    notice, error = result.err.splitlines()
    assert notice == f"not sent: {files[1]}, {files[2]}"
    assert error.startswith("semq: SEMQ-1313 ")
    assert semq("msg", "show", files[0].name, *words[-2:]).status == 0
    semq("msg", "show", files[1].name, *words[-2:]).fails(1, "SEMQ-1207")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--to", "99999"], "SEMQ-1201"),
        (["--to", STRANGER], "SEMQ-1202"),
        (["--to", "5 6"], "SEMQ-1101"),
        (["--to", "56001", "--save-fwd", "7"], "SEMQ-1102"),
        (["--to", "56001", "--type", "a/b"], "SEMQ-1103"),
        (["--to", "56001", "--order-key", "k", "--save-fwd", "1"], "SEMQ-1104"),
        (["--to", "56001", "--file", "/no/such/file"], "SEMQ-2203"),
    ],
)
def test_bad_input_is_refused(network: Network, words: list[str], code: str) -> None:
    semq("msg", "send", *words, "--node", network.sender.url, stdin=b"x").fails(1, code)


def test_a_document_that_is_too_large_is_refused(network: Network) -> None:
    result = semq("msg", "send", "--to", "56001", "--node", network.sender.url, stdin=bytes(3_500_000))
    result.fails(1, "SEMQ-1203")


def test_unknown_messages_are_refused(network: Network) -> None:
    for command in ("show", "trace", "body", "cancel"):
        semq("msg", command, "no-such-key", "--node", network.sender.url).fails(1, "SEMQ-1207")


def test_a_bad_time_is_refused(network: Network) -> None:
    semq("msg", "list", "--since", "yesterday", "--node", network.sender.url).fails(1, "SEMQ-2206")


def test_json_output_contains_unusual_keys_unchanged(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    key = 'a "quoted" 订单 [bold]'
    lk0 = semq("msg", "send", "--to", ABSENT, "--key", key, *at, stdin=b"x").data["lk0"]
    assert json.loads(semq("msg", "show", lk0, *at).out)["app_key"] == f"///{key}"
