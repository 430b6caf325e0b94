"""Folders of real nodes."""

import fcntl
import glob
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from semq.folders.layout import NOTE
from semq.installation.process import NodeProcess
from tests.app.network import DOCUMENT_MAX, STRANGER, Network
from tests.cli.command import semq
from tests.mounts import mount, mounted, unmount
from tests.waiting import until_sync as until

FOLDERS = """
[[folders]]
path = "root"
domain = "trade"
settle_s = 0.2
"""
RECEIVER_MAX = 1024 * 1024  # bytes of the largest document that the receiver accepts


class NodeFolders:
    """The folders of one node."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.root = node.place.config.parent / f"root of {node.place.name}"

    def put(self, relative_path: str, body: bytes = b"<order/>") -> None:
        """Write a file as applications should: complete it before it gets its name."""
        path = self.root / "out" / relative_path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(body)
        part.replace(path)

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files in a folder, without notes, by relative path; in ``sent`` without the day."""
        paths = (self.root / folder).rglob("*")
        return {
            str(Path(*path.relative_to(self.root / folder).parts[folder == "sent" :])): path.read_bytes()
            for path in paths
            if path.is_file() and not path.name.endswith(NOTE) and not path.name.startswith(".")
        }

    def note(self, folder: str, relative_path: str) -> dict[str, object]:
        """Return the note beside a file; empty if there is none."""
        paths = (self.root / folder).glob(f"{'*/' if folder == 'sent' else ''}{glob.escape(relative_path)}{NOTE}")
        return dict(json.loads(path.read_text())) if (path := next(paths, None)) else {}

    def pid(self) -> int:
        """Return the id of the process that serves this root."""
        return int((self.root / ".semq.lock").read_text())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeFolders, NodeFolders]]:
    """Yield the folders of a sender and of a receiver."""
    network = Network(tmp_path_factory.mktemp("folders"))
    pair = NodeFolders(network.sender), NodeFolders(network.receiver)
    for of_node in pair:
        config = of_node.node.place.config
        text = config.read_text() + FOLDERS.replace('"root"', f'"{of_node.root.name}"')
        own_max = DOCUMENT_MAX if of_node is pair[0] else RECEIVER_MAX
        config.write_text(text.replace(f"max_document_bytes = {DOCUMENT_MAX}", f"max_document_bytes = {own_max}"))
    with ExitStack() as exits:
        network.start(exits)
        yield pair


def test_a_file_is_sent_and_arrives_with_its_attributes(folders: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = folders
    sender.put("56001/order/standard/S0001.xml")
    until(lambda: "10008/order/standard/S0001.xml" in receiver.files("in"))
    note = receiver.note("in", "10008/order/standard/S0001.xml")
    assert note["app_key"] == "trade/order/standard/S0001.xml"
    assert (note["source"], note["content_type"], note["is_intact"]) == ("1.10008", "application/xml", True)
    until(lambda: sender.note("sent", "56001/order/standard/S0001.xml").get("outcome") == "DELIVERED")
    assert sender.note("sent", "56001/order/standard/S0001.xml")["lk0"] == note["lk0"]
    assert "56001/order/standard/S0001.xml" not in sender.files("out")


def test_two_documents_with_the_same_name_become_two_files(folders: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = folders
    for body in (b"one", b"two"):
        sender.put("56001/again.txt", body)
        until(lambda: "56001/again.txt" not in sender.files("out"))
    until(lambda: sum(name.startswith("10008/again") for name in receiver.files("in")) == 2)
    assert {body for name, body in receiver.files("in").items() if name.startswith("10008/again")} == {b"one", b"two"}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (f"{STRANGER}/a.xml", b"x", "SEMQ-1202"),
        ("nobody/a.xml", b"x", "SEMQ-1201"),
        ("no path.xml", b"x", "SEMQ-1340"),
        ("not an address!/a.xml", b"x", "SEMQ-1101"),
        ("56001/large.bin", bytes(DOCUMENT_MAX + 1), "SEMQ-1341"),
        (f"56001/{'n' * 150}.xml", b"x", "SEMQ-1103"),
    ],
)
def test_a_refused_file_is_moved_to_failed_with_the_reason(
    folders: tuple[NodeFolders, NodeFolders], path: str, body: bytes, code: str
) -> None:
    sender, _ = folders
    sender.put(path, body)
    until(lambda: path in sender.files("failed"))
    note = sender.note("failed", path)
    assert note["code"] == code, note
    assert note["reason"]
    assert note["remedy"]


def test_a_file_is_sent_only_when_it_is_complete(folders: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = folders
    path = sender.root / "out" / "56001" / "slow.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as stream:
        for _ in range(8):
            stream.write(b"piece ")
            time.sleep(0.1)
    until(lambda: "10008/slow.txt" in receiver.files("in"))
    assert receiver.files("in")["10008/slow.txt"] == b"piece " * 8


def test_nothing_is_lost_or_doubled_when_processes_are_killed(folders: tuple[NodeFolders, NodeFolders]) -> None:
    sender, receiver = folders
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


def test_a_document_that_its_receiver_refuses_moves_to_failed(folders: tuple[NodeFolders, NodeFolders]) -> None:
    sender, _ = folders
    path = "56001/order/too large there.bin"
    sender.put(path, bytes(RECEIVER_MAX + 1))
    until(lambda: path in sender.files("failed"))
    note = sender.note("failed", path)
    assert note["outcome"] == "REJECTED"
    assert "SEMQ-1203" in str(note["reason"])
    assert path not in sender.files("sent")
    assert sender.note("sent", path) == {}


def test_documents_wait_at_the_node_while_their_folder_cannot_be_written(
    folders: tuple[NodeFolders, NodeFolders],
) -> None:
    sender, receiver = folders
    folder = receiver.root / "in"
    away = folder.rename(receiver.root / "away")
    folder.write_bytes(b"a file where a folder has to be")
    sender.put("56001/blocked/a.txt")
    until(lambda: "56001/blocked/a.txt" in sender.files("sent"))
    until(lambda: sender.note("sent", "56001/blocked/a.txt").get("outcome") == "DELIVERED")
    folder.unlink()
    away.rename(folder)
    until(lambda: "10008/blocked/a.txt" in receiver.files("in"))


def test_nothing_is_acknowledged_that_would_be_written_below_a_mount_point(
    folders: tuple[NodeFolders, NodeFolders],
) -> None:
    sender, receiver = folders
    store = receiver.root.rename(receiver.root.with_name("store"))
    receiver.node.end(signal.SIGTERM)
    receiver.root.mkdir()
    with mounted(receiver.root, "--bind", str(store)):
        receiver.node.start()
        sender.put("56001/before.txt", b"before")
        until(lambda: "10008/before.txt" in receiver.files("in"))
        unmount(receiver.root)
        sender.put("56001/during.txt", b"during")
        until(lambda: "SEMQ-1346" in health(receiver))
        assert "not mounted" in health(receiver)
        receiver.node.end(signal.SIGTERM)
        receiver.node.start()
        until(lambda: "SEMQ-1346" in health(receiver))
        until(lambda: sender.note("sent", "56001/during.txt").get("outcome") == "DELIVERED")
        assert list(receiver.root.iterdir()) == []
        mount(receiver.root, "--bind", str(store))
        until(lambda: receiver.files("in").get("10008/during.txt") == b"during")
        until(lambda: not health(receiver))
        receiver.node.end(signal.SIGTERM)
    receiver.root.rmdir()
    store.rename(receiver.root)
    receiver.node.start()


def test_a_second_process_for_a_root_is_refused_with_the_id_of_the_first(
    folders: tuple[NodeFolders, NodeFolders],
) -> None:
    sender, _ = folders
    command = [sys.executable, "-m", "semq.folders", "--config", str(sender.node.place.config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 69
    assert "SEMQ-1343" in done.stderr
    assert str(sender.pid()) in done.stderr


def test_a_root_that_cannot_be_served_does_not_stop_the_others(folders: tuple[NodeFolders, NodeFolders]) -> None:
    _, receiver = folders
    place = receiver.node.place
    config = place.config.read_text()
    locked = receiver.root.with_name("locked")
    receiver.node.end(signal.SIGTERM)
    locked.mkdir()
    with (locked / ".semq.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place.config.write_text(f'{config}\n[[folders]]\npath = "{locked}"\nuser = "nobody"\nsend = false\n')
        receiver.node.start()
        folders[0].put("56001/beside.txt", b"beside")
        until(lambda: receiver.files("in").get("10008/beside.txt") == b"beside")
        until(lambda: "SEMQ-1343" in health(receiver))
    until(lambda: "SEMQ-1343" not in health(receiver))
    receiver.node.end(signal.SIGTERM)
    place.config.write_text(config)
    receiver.node.start()


def health(folders: NodeFolders) -> str:
    """Return the health check of a node about its folders."""
    output = semq("node", "health", "--json", "--node", folders.node.url).out
    checks = json.loads(output)["checks"] if output else []
    return "".join(str(check["detail"]) for check in checks if check["check"] == "folders")
