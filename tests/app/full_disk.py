"""A client whose disk for large bodies is full."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from semq.app import Client
from tests.waiting import PATIENCE_S

LARGE = bytes(range(256)) * 400  # bytes of a body that ``spooling`` puts in a file by default


def spooling(url: str, monkeypatch: pytest.MonkeyPatch, *, size: int = len(LARGE)) -> Client:
    """Return a client that puts bodies of ``size`` bytes or more in files."""
    monkeypatch.setattr("semq.app.link.SPOOLED_FROM", size)
    return Client(url, patience_s=PATIENCE_S)


def _full_file(**_: object) -> IO[bytes]:
    return Path("/dev/full").open("w+b")


@contextmanager
def full_disk() -> Iterator[None]:
    """Let temporary files have no room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", _full_file)
        yield
