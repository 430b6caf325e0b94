"""The fixture ``world``: a trio with certificates, checked for leaked secrets afterwards."""

from collections.abc import Iterator

import pytest

from semq.store.rows import KeptKey
from tests.flows.sealed import SECRET, SealedWorld


@pytest.fixture
def world() -> Iterator[SealedWorld]:
    sealed_world = SealedWorld()
    sealed_world.settle()
    yield sealed_world
    # No SECRET in a ledger line, an error or a stored key, and no private key in a line or an error.
    for node in sealed_world.nodes:
        texts = [line.detail for line in node.store.tables.ledger] + [str(error) for error in node.refused]
        assert not any(SECRET.decode() in text or "PRIVATE" in text for text in texts)
        assert not any(
            SECRET in kept.text.encode() for kept in node.store.tables.rare_rows if isinstance(kept, KeptKey)
        )
