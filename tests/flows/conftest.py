"""A fixture for all flows of sealed documents: a trio with certificates, checked for leaked secrets afterwards."""

from collections.abc import Iterator

import pytest

from semq.store.rows import KeptKey
from tests.flows.sealed import SECRET, SealedWorld


@pytest.fixture
def world() -> Iterator[SealedWorld]:
    made = SealedWorld()
    made.settle()
    yield made
    for node in made.nodes:  # after every test: no secret in a ledger, a table or on a wire
        texts = [line.detail for line in node.store.tables.ledger] + [str(error) for error in node.refused]
        assert not any(SECRET.decode() in text or "PRIVATE" in text for text in texts)
        assert not any(SECRET in kept.text.encode() for kept in node.store.tables.rare if isinstance(kept, KeptKey))
