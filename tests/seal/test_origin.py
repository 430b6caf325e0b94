"""@Signature of documents."""

import pytest

from semq.seal.errors import ReceiptForged, SignatureWrong
from semq.seal.keys import verify
from semq.seal.origin import read_origin, write_origins
from tests.seal.parties import key_of

A = key_of("P256", "1.10008")


@pytest.mark.parametrize(
    ("index", "part"),
    [(0, "1"), (3, "-1"), (4, "7"), (5, "0"), (2, "%"), (3, "many")],
    ids=("version", "size", "place", "count", "base64", "not a number"),
)
def test_an_unknown_form_is_refused(index: int, part: str) -> None:
    [text] = write_origins(A, "1.10008", "1.56001", [(b"facts", 5)])
    read_origin(text)
    parts = text.split(".")
    parts[index] = part
    with pytest.raises(ReceiptForged):
        read_origin(".".join(parts))


def test_the_signature_binds_facts_size_and_parties() -> None:
    documents = [(b"one", 5), (b"two", 7), (b"three", 0)]
    for text, (facts, _) in zip(write_origins(A, "1.10008", "1.56001", documents), documents, strict=True):
        origin = read_origin(text)
        verify(A.public_key(), origin.signature, origin.message("1.10008", "1.56001", facts))
        for message in (
            origin.message("1.56001", "1.56001", facts),
            origin.message("1.10008", "1.10008", facts),
            origin.message("1.10008", "1.56001", b"others"),
            origin._replace(size=6).message("1.10008", "1.56001", facts),
        ):
            with pytest.raises(SignatureWrong):
                verify(A.public_key(), origin.signature, message)
