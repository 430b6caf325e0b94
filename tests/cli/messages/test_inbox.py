"""Files sent and received by commands: unusual names, unwritable and empty files, content types."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from semq.umx_t.short_name import short_name
from tests.app.network import Network
from tests.cli.command import environment, semq

LONG = "订" * 128  # 384 bytes: accepted as an AppKey, too long for a file name


def send(network: Network, user: str, key: str, body: bytes, *more: str) -> str:
    words = ["--to", f"56001/{user}", "--key", key, "--file", "-", *more]
    result = semq("msg", "send", *words, "--json", "--node", network.sender.url, stdin=body)
    return str(result.data["lk0"])


def test_documents_with_long_or_hostile_names_are_written_and_acknowledged(network: Network, tmp_path: Path) -> None:
    keys = [LONG, LONG[:-1] + "二", "../../escape", "con|aux?.xml", "plain.xml"]
    bodies = {send(network, "names", key, key.encode()): key.encode() for key in keys}
    words = ["--user", "names", "--into", str(tmp_path / "in"), "--count", str(len(keys)), "--timeout", "60"]
    result = semq("msg", "receive", *words, "--json", "--node", network.receiver.url)
    assert (result.status, result.err) == (0, "")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert {row["lk0"]: Path(row["file"]).read_bytes() for row in rows} == bodies
    assert {Path(row["file"]).parent for row in rows} == {tmp_path / "in"}
    assert len(list((tmp_path / "in").iterdir())) == len(keys)
    none = semq("msg", "receive", "--user", "names", "--timeout", "0.5", "--node", network.receiver.url)
    assert none.status == 1  # all documents were acknowledged


def test_an_unusable_folder_is_refused_before_a_document_is_taken(network: Network, tmp_path: Path) -> None:
    """In /proc nobody can create files."""
    send(network, "unusable", "order", b"body")
    words = ["msg", "receive", "--user", "unusable", "--no-ack", "--node", network.receiver.url]
    semq(*words, "--timeout", "60")  # the document has arrived
    file = tmp_path / "file"
    file.write_text("")
    for folder, fault in ((file, "is not a folder"), (file / "below", "Not a directory"), (Path("/proc"), "")):
        result = semq(*words, "--into", str(folder))
        result.fails(1, "SEMQ-2203", f"(file='{folder}' fault='{fault}")
        assert result.out == ""


def test_many_documents_can_be_read_without_acknowledgement(network: Network) -> None:
    """The node delivers no more than the prefetch before the first acknowledgement."""
    sent = {send(network, "many", f"many-{n}", b"m") for n in range(20)}
    words = ["msg", "receive", "--user", "many", "--timeout", "5", "--json", "--node", network.receiver.url, "--count"]
    for count in ("20", "0"):
        result = semq(*words, count, "--no-ack")
        assert {json.loads(line)["lk0"] for line in result.out.splitlines()} == sent
    semq(*words, "20")


@pytest.mark.parametrize("wrong", [["--count", "-1"], ["--node", "amqp://127.0.0.1:1", "--timeout", "0.1"]])
def test_a_command_that_receives_nothing_makes_no_folder(tmp_path: Path, wrong: list[str]) -> None:
    """Neither with another wrong option nor without a connection to the node."""
    assert semq("msg", "receive", "--into", str(tmp_path / "in"), *wrong).status != 0
    assert not (tmp_path / "in").exists()


def test_a_document_that_cannot_be_written_waits_and_blocks_no_other(network: Network, tmp_path: Path) -> None:
    large = send(network, "small-disk", "large", b"L" * 200_000)
    small = [send(network, "small-disk", f"small-{n}", b"s") for n in range(3)]
    words = ["msg", "receive", "--user", "small-disk", "--into", str(tmp_path / "in"), "--json", "--timeout", "5"]
    command = f'ulimit -f 64; exec "$0" -m semq.cli {" ".join(words)} --count 4 --node {network.receiver.url}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable], capture_output=True, text=True, env=environment({}), check=False
    )
    assert [json.loads(line)["lk0"] for line in done.stdout.splitlines()] == small
    assert done.returncode == 1
    assert f"{short_name(large)}  not written, not acknowledged: SEMQ-2203" in done.stderr
    assert "semq: SEMQ-2215" in done.stderr.splitlines()[-1]
    again = semq(*words, "--count", "1", "--node", network.receiver.url).data
    assert (again["lk0"], Path(again["file"]).stat().st_size) == (large, 200_000)
    assert len(list((tmp_path / "in").iterdir())) == 4


def test_the_content_type_travels_with_the_document(network: Network, tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    order.write_text('{"total": 7}')
    node = ["--node", network.sender.url, "--json"]
    semq("msg", "send", "--to", "56001/types", "--file", str(order), *node)
    semq("msg", "send", "--to", "56001/types", "--file", str(order), "--content-type", "text/x-own", *node)
    send(network, "types", "sniffed", b"<?xml version='1.0'?><a/>")
    send(network, "types", "unknown", b"\0\1\2")
    result = semq(
        "msg", "receive", "--user", "types", "--count", "4", "--timeout", "60", "--json", "--node", network.receiver.url
    )
    types = [json.loads(line)["content_type"] for line in result.out.splitlines()]
    assert types == ["application/json", "text/x-own", "application/xml", ""]


def test_empty_documents_are_refused_without_allow_empty(network: Network) -> None:
    node = ["--node", network.sender.url]
    semq("msg", "send", "--to", "56001/empty", *node).fails(1, "SEMQ-2213", "--file -")
    semq("msg", "send", "--to", "56001/empty", "--file", "-", *node).fails(1, "SEMQ-2214", "--allow-empty")
    sent = semq("msg", "send", "--to", "56001/empty", "--file", "-", "--allow-empty", "--json", *node).data
    assert sent["digest"] == sha256(b"").hexdigest()
