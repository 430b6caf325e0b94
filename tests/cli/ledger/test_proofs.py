"""``semq verify``: a valid proof is accepted, and every other file is refused with an error."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from semq.cli.main import run
from semq.pki.keys import new_key
from semq.seal.keys import sign
from semq.seal.proof import Proof, write_proof
from semq.seal.receipts import Statement, leaf, tree_message
from tests.pki.people import NOW, authority, issued

OURS, KEY = authority(), new_key()
CERTIFICATE = issued(OURS, "1.56001", key=KEY)
AT = int(NOW.timestamp() * 1000)


def proof(status: str = "RECV", **more: Any) -> dict[str, Any]:
    statement = Statement("1.56001", "1.10008.1.1.a.7", status, "00" * 32, AT)
    signed = Proof(
        receiver="1.56001", sender="1.10008", lk0=statement.lk0, status=status, digest=statement.digest, at=AT, place=0,
        count=1, path=[], signature=sign(KEY, tree_message("1.56001", "1.10008", 1, leaf(statement))),
        certificates=[CERTIFICATE.pem.decode()],
    )  # fmt: skip
    content: dict[str, Any] = msgspec.json.decode(write_proof(signed))
    return content | more


def verify_status(file: Path, data: bytes) -> int:
    """Run ``semq verify`` on a file with these bytes, trusting the receiver's authority; return the exit status."""
    trust = file.with_name("trust.pem")
    trust.write_bytes(OURS.pem)
    file.write_bytes(data)
    return run(["verify", str(file), "--trust", str(trust)])


def test_a_good_proof_is_accepted(tmp_path: Path) -> None:
    assert verify_status(tmp_path / "proof.json", msgspec.json.encode(proof())) == 0


FOREIGN_CERTIFICATE = issued(authority("other"), "1.56001").pem.decode()
# Fault | proof with this fault
HOSTILE: dict[str, dict[str, Any]] = {
    "the status of a refusal": proof("REJ"),
    "the status of a void marker": proof("VOID"),
    "a time beyond all years": proof(at=2**62),
    "a time before 1970": proof(at=-1),
    "another receiver": proof(receiver="1.88001"),
    "an invalid address": proof(receiver="1.\U0001f600"),
    "an invalid certificate": proof(certificates=["x"]),
    "no certificate": proof(certificates=[]),
    "another authority": proof(certificates=[FOREIGN_CERTIFICATE]),
    "a chain of nonsense": proof(certificates=[CERTIFICATE.pem.decode() + "x-----END CERTIFICATE-----"]),
    "a chain without end": proof(certificates=[CERTIFICATE.pem.decode() + OURS.pem.decode() * 300]),
    "a place beyond the count": proof(place=5),
    "a path far too long": proof(path=["AA=="] * 10_000),
    "no signature": proof(signature=""),
    "another document": proof(lk0="1.10008.1.1.a.8"),
    "an unknown field": proof(more=1),
    "another version": proof(format="semq-proof-2"),
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_proof_with_invalid_contents_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    assert verify_status(tmp_path / "proof.json", msgspec.json.encode(HOSTILE[fault])) == 1
    assert "semq: SEMQ-" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff" * 100, b"[" * 100_000, b'{"format": "semq-proof-1"}'])
def test_a_file_in_another_format_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    assert verify_status(tmp_path / "proof.json", data) == 1
    assert "semq: SEMQ-5211" in capsys.readouterr().err
