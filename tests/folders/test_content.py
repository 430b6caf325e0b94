"""The content of a file in ``out``."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from semq.folders.content import READ_MAX, FileChanged, FileContent, content_of
from semq.folders.layout import Layout, Offered
from semq.transport.spool import BLOCK


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root")
    layout.make()
    return layout


def offered(layout: Layout, body: bytes) -> Offered:
    path = layout.out / "56001" / "a.xml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(body)
    [file] = layout.offered(10)
    return file


def test_a_file_that_was_changed_or_replaced_is_not_read(layout: Layout, tmp_path: Path) -> None:
    file = offered(layout, b"body")
    assert content_of(file) == (b"body", b"body", sha256(b"body").hexdigest())
    with file.path.open("ab") as stream:
        stream.write(bytes(1000))
    with pytest.raises(FileChanged):
        content_of(file)
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(FileChanged):
        content_of(file)
    file.path.unlink()
    file.path.symlink_to(tmp_path)
    with pytest.raises(OSError, match="symbolic"):
        content_of(file)


def test_a_large_file_is_read_in_blocks_and_may_be_read_again(layout: Layout) -> None:
    body = bytes(range(256)) * (READ_MAX // 256 + 1000)
    content, beginning, digest = content_of(offered(layout, body))
    assert isinstance(content, FileContent)
    assert (len(content), digest) == (len(body), sha256(body).hexdigest())
    assert beginning == body[: READ_MAX + 1]
    for _ in "12":
        blocks = list(content.blocks())
        assert b"".join(blocks) == body
        assert max(map(len, blocks)) == BLOCK


@pytest.mark.parametrize("size", [10, READ_MAX + 1, READ_MAX + 100_000])
def test_a_large_file_that_changes_while_it_is_sent_is_not_read_to_its_end(layout: Layout, size: int) -> None:
    file = offered(layout, bytes(READ_MAX + BLOCK))
    content, _, _ = content_of(file)
    assert isinstance(content, FileContent)
    blocks = iter(content.blocks())
    next(blocks)
    os.truncate(file.path, size)
    with pytest.raises(FileChanged):
        list(blocks)
