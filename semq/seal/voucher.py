"""Vouchers: signatures by a node's older keys under its newer certificate, to tell a renewal from a replacement.

Vouchers follow the certificate and its chain in the text that the directory distributes, as PEM blocks that other
readers skip. A voucher only states that the owner of the old key intended the new key: the certificate must also be
verified against the authorities. ``fingerprint`` is the SHA-256 of the certificate in hexadecimal.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping

from semq.seal.canonical import canonical
from semq.seal.errors import SignatureWrong
from semq.seal.keys import PrivateKey, PublicKey, key_id, sign, verify

VOUCHERS_MAX = 4  # of one certificate
BLOCK = re.compile(r"-----BEGIN SEMQ VOUCHER-----\s([A-Za-z0-9+/=\s]{1,4096})-----END SEMQ VOUCHER-----\s?")
LINE_LENGTH = 64  # characters, as in PEM


def with_vouchers(pem: str, node: str, fingerprint: str, keys: Iterable[PrivateKey]) -> str:
    """Return the text of a certificate of ``node``, with a voucher by each of the first ``VOUCHERS_MAX`` keys."""
    message = _message(node, fingerprint)
    blocks = (f"{key_id(key.public_key())} ".encode() + sign(key, message) for key in list(keys)[:VOUCHERS_MAX])
    return pem.rstrip() + "\n" + "".join(map(_block, blocks))


def is_vouched(pem: str, node: str, fingerprint: str, keys: Mapping[str, PublicKey]) -> bool:
    """Return whether one of the keys (by key id) vouches for a certificate of ``node``."""
    message = _message(node, fingerprint)
    return any(_is_valid(keys[signer], signature, message) for signer, signature in _vouchers(pem) if signer in keys)


def without_vouchers(pem: str) -> str:
    """Return the certificate and its chain alone."""
    return BLOCK.sub("", pem)


def _vouchers(pem: str) -> Iterator[tuple[str, bytes]]:
    for block in list(BLOCK.finditer(pem))[:VOUCHERS_MAX]:
        try:
            signer, _, signature = b64decode(block[1]).partition(b" ")
        except ValueError:
            continue
        yield signer.decode("ascii", "replace"), signature


def _is_valid(key: PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        verify(key, signature, message)
    except SignatureWrong:
        return False
    return True


def _message(node: str, fingerprint: str) -> bytes:
    return canonical("semq certificate voucher 1", node, fingerprint)


def _block(data: bytes) -> str:
    text = b64encode(data).decode()
    lines = [text[start : start + LINE_LENGTH] for start in range(0, len(text), LINE_LENGTH)]
    return "\n".join(("-----BEGIN SEMQ VOUCHER-----", *lines, "-----END SEMQ VOUCHER-----", ""))
