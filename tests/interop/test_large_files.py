"""A large file through the folders of real nodes: each process keeps a small part in memory."""

from contextlib import ExitStack
from hashlib import file_digest, shake_128
from pathlib import Path

from tests.app.network import DOCUMENT_MAX, Network
from tests.folders.test_process import FOLDERS, NodeFolders
from tests.interop.test_large_bodies import MIB, peak_mib
from tests.waiting import until_sync as until

SIZE_MIB = 48
GROWTH_MIB = 24  # limit for the growth of each process: half of the file
LARGEST = f"max_document_bytes = {DOCUMENT_MAX}"
FILE = "56001/film.bin"


def write(path: Path) -> str:
    """Write a file that does not compress; return its SHA-256."""
    path.parent.mkdir(parents=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        for number in range(SIZE_MIB):
            file.write(shake_128(b"%d" % number).digest(MIB))
    part.replace(path)
    return digest_of(path)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def test_a_large_file_arrives_and_no_process_holds_it_in_memory(tmp_path: Path) -> None:
    network = Network(tmp_path)
    sender, receiver = NodeFolders(network.sender), NodeFolders(network.receiver)
    for node_folders in (sender, receiver):
        config = node_folders.node.place.config
        text = config.read_text("utf-8").replace(LARGEST, f"{LARGEST}\npieces_from_bytes = {MIB}")
        config.write_text(text + FOLDERS.replace('"root"', f'"{node_folders.root.name}"'), "utf-8")
    with ExitStack() as exits:
        network.start(exits)
        folders = {"sender's folders": sender, "receiver's folders": receiver}
        until(lambda: all((node_folders.root / ".semq.lock").exists() for node_folders in folders.values()))
        processes = {name: node.pid or 0 for name, node in network.nodes.items()}
        processes |= {name: node_folders.pid() for name, node_folders in folders.items()}
        before = {name: peak_mib(pid) for name, pid in processes.items()}
        digest = write(sender.root / "out" / FILE)
        arrived = receiver.root / "in" / "10008/film.bin"
        until(arrived.exists)
        assert digest_of(arrived) == digest
        until(lambda: sender.note("sent", FILE).get("outcome") == "DELIVERED")
        growth_mib = {name: peak_mib(pid) - before[name] for name, pid in processes.items()}
        assert max(growth_mib.values()) < GROWTH_MIB, growth_mib
