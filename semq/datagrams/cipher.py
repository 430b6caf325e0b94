"""A datagram as bytes: a mark, connection id and sequence number in clear, and a sealed content.

    offset  0  1 byte    MARK: version 1
            1  8 bytes   connection id
            9  8 bytes   sequence number, big endian
           17  content and tag, AES-256-GCM; the first 17 bytes are authenticated with it

Each direction has a key and a nonce mask of its own (HKDF, RFC 5869). The nonce is the mask XOR the sequence number.
"""

from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MARK = 0xA1
ID_BYTES, SECRET_BYTES = 8, 32
HEAD = Struct(">B8sQ")
TAG_BYTES, NONCE_BYTES = 16, 12
OVERHEAD = HEAD.size + TAG_BYTES
# Number of datagrams under one key: the confidentiality limit of AES-GCM in RFC 9001, section 6.6.
SEQUENCE_MAX = 1 << 23


class DatagramHead(NamedTuple):
    """The head of a datagram that is not authenticated yet."""

    channel_id: bytes
    sequence: int


def read_head(datagram: bytes) -> DatagramHead | None:
    """Return the head of a datagram; None if the bytes are not a datagram of this version."""
    if len(datagram) < OVERHEAD:
        return None
    mark, channel_id, sequence = HEAD.unpack_from(datagram)
    return DatagramHead(channel_id, sequence) if mark == MARK and sequence < SEQUENCE_MAX else None


class DirectionCipher:
    """The key of one direction of one channel."""

    def __init__(self, channel_id: bytes, secret: bytes, direction: bytes) -> None:
        """``direction``: ``offered`` for datagrams of the end that offered the channel, ``taken`` for the other end."""
        derived = HKDF(SHA256(), 32 + NONCE_BYTES, channel_id, b"semq datagrams 1 " + direction).derive(secret)
        self._id = channel_id
        self._cipher = AESGCM(derived[:32])
        self._mask = int.from_bytes(derived[32:], "big")

    def _nonce(self, sequence: int) -> bytes:
        return (self._mask ^ sequence).to_bytes(NONCE_BYTES, "big")

    def seal(self, sequence: int, content: bytes) -> bytes:
        """Return the datagram; the caller uses each sequence number once."""
        head = HEAD.pack(MARK, self._id, sequence)
        return head + self._cipher.encrypt(self._nonce(sequence), content, head)

    def open(self, datagram: bytes, sequence: int) -> bytes | None:
        """Return the content of a datagram with this sequence number; None if it is not authentic."""
        try:
            return self._cipher.decrypt(self._nonce(sequence), datagram[HEAD.size :], datagram[: HEAD.size])
        except InvalidTag:
            return None
