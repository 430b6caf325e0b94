"""@Signature as text: what is no signature of a known form is refused before it is checked."""

import pytest

from semq.seal.errors import ReceiptForged
from semq.seal.origin import read_origin, write_origins
from tests.seal.parties import key_of

A = key_of("P256", "1.10008")


@pytest.mark.parametrize(
    ("place", "part"),
    [(0, "1"), (3, "-1"), (4, "7"), (5, "0"), (2, "%"), (3, "many")],
    ids=("version", "size", "place", "count", "base64", "no number"),
)
def test_an_unknown_form_is_refused(place: int, part: str) -> None:
    [text] = write_origins(A, "1.10008", "1.56001", [(b"facts", 5)])
    read_origin(text)
    parts = text.split(".")
    parts[place] = part
    with pytest.raises(ReceiptForged):
        read_origin(".".join(parts))
