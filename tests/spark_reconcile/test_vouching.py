"""Signatures of extracts and repair lists: made by a node's own key, believed by the authorities alone."""

from base64 import b64encode
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from semq.clock import SystemClock
from semq.config import load
from semq.pki.errors import TrustUnreadable
from spark_reconcile.manifest import Sign
from spark_reconcile.repair import HUB
from spark_reconcile.vouching import authorities, signer, signer_of, verifier
from tests.pki.people import NOW, authority, ring
from tests.service.inprocess import LOCAL, PLATFORM

CONTENT = b"what a node says"
CLOCK = SystemClock()
OURS, FOREIGN = authority(), authority("another")


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    file = tmp_path / "trust.pem"
    file.write_bytes(OURS.pem)
    return file


def config(folder: Path, text: str = LOCAL.format(name="10008", hub=1)) -> Path:
    file = folder / "node.toml"
    file.write_text(text)
    return file


def sign_of(folder: Path, by: object = OURS, node: str = "1.10008", days: float = 90, age: int = 0) -> Sign:
    text = PLATFORM if node.startswith("2.") else LOCAL.format(name=node[2:], hub=1)
    settings = load(config(folder, text), {})
    ring(settings.pki_dir, by, node, at=NOW - timedelta(days=age), days=days)  # type: ignore[arg-type]
    made = signer(settings)
    assert made is not None
    return made


def test_a_signature_is_believed_for_its_node_and_content_only(tmp_path: Path, trust: Path) -> None:
    signature = sign_of(tmp_path)(CONTENT)
    verify = verifier(trust, CLOCK)
    assert verify("1.10008", CONTENT, signature)
    assert not verify("1.56001", CONTENT, signature)
    assert not verify(HUB, CONTENT, signature)
    assert not verify("1.10008", CONTENT + b".", signature)


def test_only_the_platform_speaks_for_the_hub(tmp_path: Path, trust: Path) -> None:
    verify = verifier(trust, CLOCK)
    assert verify(HUB, CONTENT, sign_of(tmp_path, node="2.hub")(CONTENT))


def test_other_authorities_and_old_certificates_are_not_believed(tmp_path: Path, trust: Path) -> None:
    verify = verifier(trust, CLOCK)
    for name, made in {"a": sign_of(tmp_path, FOREIGN), "b": sign_of(tmp_path / "..", days=10, age=20)}.items():
        assert not verify("1.10008", CONTENT, made(CONTENT)), name


@pytest.mark.parametrize("field", ["value", "certificate"])
@pytest.mark.parametrize("text", ["", "no base64!", b64encode(b"nonsense").decode()])
def test_nonsense_is_no_signature(tmp_path: Path, trust: Path, field: str, text: str) -> None:
    signature = sign_of(tmp_path)(CONTENT)
    assert not verifier(trust, CLOCK)("1.10008", CONTENT, msgspec.structs.replace(signature, **{field: text}))


def test_who_is_not_enrolled_signs_nothing(tmp_path: Path) -> None:
    assert signer_of(config(tmp_path)) is None
    assert authorities("", config(tmp_path)) is None
    job = config(tmp_path, "[reconcile]\n")
    assert [signer_of(job), signer_of(None), authorities("", job), authorities("", None)] == [None] * 4
    with pytest.raises(TrustUnreadable):
        verifier(tmp_path / "nothing.pem", CLOCK)


def test_an_enrolled_node_believes_its_own_authorities(tmp_path: Path) -> None:
    sign = sign_of(tmp_path)
    file = config(tmp_path)
    own = authorities("", file)
    assert own is not None
    assert verifier(own, CLOCK)("1.10008", CONTENT, sign(CONTENT))
    assert signer_of(file) is not None
    assert authorities("stated.pem", file) == Path("stated.pem")
