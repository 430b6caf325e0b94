"""Folders of real nodes: files sent and received, also when processes are killed."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from semq.folders.layout import NOTE
from semq.installation.process import NodeProcess
from tests.app.network import DOCUMENT_MAX, STRANGER, Network
from tests.waiting import until_sync as until

FOLDERS = """
[[folders]]
path = "door"
domain = "trade"
settle_s = 0.2
"""
RECEIVER_MAX = 1024 * 1024  # bytes of a document that the receiver takes


class NodeFolders:
    """The folders of one node."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.root = node.place.config.parent / f"door of {node.place.name}"

    def put(self, place: str, body: bytes = b"<order/>") -> None:
        """Write a file as applications should: under a name that is not sent, then renamed."""
        path = self.root / "out" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(body)
        part.replace(path)

    def files(self, folder: str) -> dict[str, bytes]:
        """The files in a folder, without notes."""
        found = (self.root / folder).rglob("*")
        return {
            str(path.relative_to(self.root / folder)): path.read_bytes()
            for path in found
            if path.is_file() and not path.name.endswith(NOTE) and not path.name.startswith(".")
        }

    def note(self, folder: str, place: str) -> dict[str, object]:
        """Return the note beside a file; empty if there is none."""
        path = self.root / folder / f"{place}{NOTE}"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def pid(self) -> int:
        """The process that serves this root."""
        return int((self.root / ".semq.lock").read_text())


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeFolders, NodeFolders]]:
    """The folders of a sender and of a receiver."""
    network = Network(tmp_path_factory.mktemp("folders"))
    pair = NodeFolders(network.sender), NodeFolders(network.receiver)
    for door in pair:
        config = door.node.place.config
        text = config.read_text() + FOLDERS.replace("door", door.root.name)
        own_max = DOCUMENT_MAX if door is pair[0] else RECEIVER_MAX
        config.write_text(text.replace(f"max_document_bytes = {DOCUMENT_MAX}", f"max_document_bytes = {own_max}"))
    with ExitStack() as exits:
        network.start(exits)
        yield pair


def test_a_file_is_sent_and_arrives_with_its_attributes(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = doors
    sender.put("56001/order/standard/S0001.xml")
    until(lambda: "10008/order/standard/S0001.xml" in receiver.files("in"))
    note = receiver.note("in", "10008/order/standard/S0001.xml")
    assert note["app_key"] == "trade/order/standard/S0001.xml"
    assert (note["source"], note["content_type"], note["is_intact"]) == ("1.10008", "application/xml", True)
    until(lambda: sender.note("sent", "56001/order/standard/S0001.xml").get("outcome") == "DELIVERED")
    assert sender.note("sent", "56001/order/standard/S0001.xml")["lk0"] == note["lk0"]
    assert "56001/order/standard/S0001.xml" not in sender.files("out")


def test_two_documents_of_one_name_are_two_files(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = doors
    for body in (b"one", b"two"):
        sender.put("56001/again.txt", body)
        until(lambda: "56001/again.txt" not in sender.files("out"))
    until(lambda: sum(name.startswith("10008/again") for name in receiver.files("in")) == 2)
    assert {body for name, body in receiver.files("in").items() if name.startswith("10008/again")} == {b"one", b"two"}


@pytest.mark.parametrize(
    ("place", "body", "code"),
    [
        (f"{STRANGER}/a.xml", b"x", "SEMQ-1202"),
        ("nobody/a.xml", b"x", "SEMQ-1201"),
        ("no place.xml", b"x", "SEMQ-1340"),
        ("not an address!/a.xml", b"x", "SEMQ-1101"),
        ("56001/large.bin", bytes(DOCUMENT_MAX + 1), "SEMQ-1341"),
        (f"56001/{'n' * 150}.xml", b"x", "SEMQ-1103"),
    ],
)
def test_a_refused_file_is_moved_to_failed_with_the_reason(
    doors: tuple[NodeFolders, NodeFolders], place: str, body: bytes, code: str
) -> None:
    sender, _ = doors
    sender.put(place, body)
    until(lambda: place in sender.files("failed"))
    note = sender.note("failed", place)
    assert note["code"] == code, note
    assert note["reason"]
    assert note["remedy"]


def test_a_file_that_is_being_written_is_awaited(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = doors
    path = sender.root / "out" / "56001" / "slow.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as stream:
        for _ in range(8):
            stream.write(b"piece ")
            time.sleep(0.1)
    until(lambda: "10008/slow.txt" in receiver.files("in"))
    assert receiver.files("in")["10008/slow.txt"] == b"piece " * 8


def test_nothing_is_lost_or_doubled_when_processes_are_killed(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = doors
    wanted = {f"10008/load/{number}.txt": str(number).encode() for number in range(300)}

    def arrived() -> dict[str, bytes]:
        return {name: body for name, body in receiver.files("in").items() if name.startswith("10008/load/")}

    def put(numbers: range) -> None:
        for number in numbers:
            sender.put(f"56001/load/{number}.txt", str(number).encode())

    put(range(100))
    until(lambda: len(arrived()) > 10)
    os.kill(sender.pid(), signal.SIGKILL)
    os.kill(receiver.pid(), signal.SIGKILL)
    put(range(100, 200))
    until(lambda: len(arrived()) > 110)
    sender.node.end(signal.SIGKILL)
    sender.node.start()
    put(range(200, 300))
    receiver.node.end(signal.SIGKILL)
    receiver.node.start()
    until(lambda: arrived() == wanted)
    until(lambda: len([name for name in sender.files("sent") if name.startswith("56001/load/")]) == 300)
    assert not [name for name in sender.files("failed") if name.startswith("56001/load/")]


def test_a_document_that_its_receiver_refuses_moves_to_failed(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, _ = doors
    place = "56001/order/too large there.bin"
    sender.put(place, bytes(RECEIVER_MAX + 1))
    until(lambda: place in sender.files("failed"))
    note = sender.note("failed", place)
    assert note["outcome"] == "REJECTED"
    assert "SEMQ-1203" in str(note["reason"])
    assert place not in sender.files("sent")
    assert sender.note("sent", place) == {}


def test_a_folder_that_cannot_be_written_keeps_documents_at_the_node(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = doors
    folder = receiver.root / "in"
    away = folder.rename(receiver.root / "away")
    folder.write_bytes(b"a file where a folder has to be")
    sender.put("56001/blocked/a.txt")
    until(lambda: "56001/blocked/a.txt" in sender.files("sent"))
    until(lambda: sender.note("sent", "56001/blocked/a.txt").get("outcome") == "DELIVERED")
    folder.unlink()
    away.rename(folder)
    until(lambda: "10008/blocked/a.txt" in receiver.files("in"))


def test_a_second_process_for_a_folder_names_the_first(doors: tuple[NodeFolders, NodeFolders]) -> None:
    sender, _ = doors
    command = [sys.executable, "-m", "semq.folders", "--config", str(sender.node.place.config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 69
    assert "SEMQ-1343" in done.stderr
    assert str(sender.pid()) in done.stderr


def test_one_folder_that_cannot_be_served_stops_no_other(doors: tuple[NodeFolders, NodeFolders]) -> None:
    """Neither a root in use nor a missing inbox; health names both, and the root is served later."""
    _, receiver = doors
    place = receiver.node.place
    config = place.config.read_text()
    taken = receiver.root.with_name("taken")
    receiver.node.end(signal.SIGTERM)
    taken.mkdir()
    with (taken / ".semq.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place.config.write_text(f'{config}\n[[folders]]\npath = "{taken}"\nuser = "nobody"\nsend = false\n')
        receiver.node.start()
        doors[0].put("56001/beside.txt", b"beside")
        until(lambda: receiver.files("in").get("10008/beside.txt") == b"beside")
        until(lambda: "SEMQ-1343" in health(receiver))
    until(lambda: "SEMQ-1343" not in health(receiver))
    receiver.node.end(signal.SIGTERM)
    place.config.write_text(config)
    receiver.node.start()


def health(door: NodeFolders) -> str:
    """Return the health check of a node about its folders."""
    command = [sys.executable, "-m", "semq.cli", "node", "health", "--json", "--node", door.node.url]
    output = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    found = [one for one in json.loads(output)["checks"] if one["check"] == "folders"] if output else []
    return "".join(str(one["detail"]) for one in found)
