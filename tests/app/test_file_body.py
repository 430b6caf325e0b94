"""A file as a body."""

from pathlib import Path

import pytest

from semq.app.file_body import FileBody
from semq.transport.spool import BLOCK


def test_a_file_is_read_in_blocks_repeatedly(tmp_path: Path) -> None:
    path = tmp_path / "film"
    path.write_bytes(b"x" * (BLOCK + 1))
    body = FileBody(path)
    with path.open("ab") as file:
        file.write(b"what came later")
    assert [len(block) for block in body.blocks()] == [BLOCK, 1]
    assert sum(map(len, body.blocks())) == len(body)


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "film"
    path.write_bytes(b"xyz")
    body = FileBody(path)
    path.write_bytes(b"x")
    with pytest.raises(EOFError):
        list(body.blocks())
