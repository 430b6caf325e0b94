"""The key pairs of a node: next, active, previous and retired.

One folder::

    slots.json              the id of the key in each slot
    keys/KEYID.key          PKCS#8, 0600
    keys/KEYID.crt          the certificate with its chain, PEM
    trust.pem               the authorities of an enrolled node

A crash leaves either the old or the new slots. ``next`` holds a key whose certificate is requested or not used yet. The
certificate of ``active`` is presented on links. ``previous`` was active before. Older keys are ``retired``: they open
documents that were sealed for them. They are deleted when two certificates were issued more than ``tls.keep_keys_days``
later, which should be longer than the longest transit of a document.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct, field
from msgspec.structs import replace

from semq.foreign_text import shortened
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import KeyRefused, NoIdentity, Untrusted, WrongName
from semq.pki.keys import PrivateKey, SecretSource, is_encrypted, key_id, new_key, read_key, write_key
from semq.pki.trust import TrustStore
from semq.store.files import sync_folder, write_safely
from semq.umx_t.address import Address

SLOTS_FILE, TRUST_FILE = "slots.json", "trust.pem"


class RetiredKey(msgspec.Struct, frozen=True):
    """A key that only opens documents."""

    key_id: str
    since: datetime


class Slots(msgspec.Struct, frozen=True):
    """The content of ``slots.json``: key ids."""

    active: str | None = None
    next: str | None = None
    previous: str | None = None
    retired: tuple[RetiredKey, ...] = ()

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield slot and key id of every key."""
        slots = (("active", self.active), ("next", self.next), ("previous", self.previous))
        yield from ((slot, key) for slot, key in slots if key)
        yield from (("retired", key.key_id) for key in self.retired)


class Identity(Struct, frozen=True):
    """The active certificate of a node, its key, and the keys that may open documents."""

    certificate: NodeCertificate
    key: PrivateKey
    keys: Mapping[str, PrivateKey] = field(default_factory=dict)  #: of all slots, by key id

    @property
    def node(self) -> Address:
        """The address that the certificate names."""
        return self.certificate.node


class KeyRing:
    """The slots of one node, on disk. No lock protects them: only one process at a time may change them."""

    def __init__(self, folder: Path, node: Address, passphrase: SecretSource | None = None) -> None:
        self.folder = folder
        self.node = node
        self._passphrase = passphrase or SecretSource()

    # --- reading
    def slots(self) -> Slots:
        """Return the slots; empty ones if there is no file. Raises KeyRefused."""
        path = self.folder / SLOTS_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=Slots)
        except FileNotFoundError:
            return Slots()
        except (OSError, msgspec.DecodeError) as error:
            raise KeyRefused("The slots cannot be read.", file=str(path), fault=shortened(str(error), 200)).with_remedy(
                "Give the node's user the right to read the file; if it is damaged, restore the key folder from a"
                " backup, or enrol the node again."
            ) from error

    def key_path(self, key_id: str) -> Path:
        """Return the path of a key file."""
        return self.folder / "keys" / f"{key_id}.key"

    def certificate_path(self, key_id: str) -> Path:
        """Return the path of a key's certificate."""
        return self.folder / "keys" / f"{key_id}.crt"

    @property
    def trust_path(self) -> Path:
        """The path of the authorities of an enrolled node."""
        return self.folder / TRUST_FILE

    def passphrase(self) -> bytes | None:
        """Return the passphrase of the key files. Raises KeyRefused."""
        return self._passphrase.read()

    def key(self, key_id: str) -> PrivateKey:
        """Return a key by its id. Raises KeyRefused."""
        return read_key(self.key_path(key_id), self.passphrase())

    def certificate(self, key_id: str) -> NodeCertificate | None:
        """Return the stored certificate of a key, or None. Raises Untrusted if the file is not a node's certificate."""
        path = self.certificate_path(key_id)
        return read_certificate(_first(path.read_bytes())) if path.exists() else None

    def chain(self, key_id: str) -> list[x509.Certificate]:
        """Return the intermediate certificates between a key's certificate and the authority. Raises Untrusted."""
        path = self.certificate_path(key_id)
        return _chain(path.read_bytes()) if path.exists() else []

    def identity(self) -> Identity:
        """Return the identity of this node. Raises NoIdentity, KeyRefused, WrongName, Untrusted."""
        slots = self.slots()
        certificate = self.certificate(slots.active) if slots.active else None
        if slots.active is None or certificate is None:
            raise NoIdentity(folder=str(self.folder))
        if certificate.node != self.node:
            raise WrongName(
                "The active certificate belongs to another node.", expected=str(self.node), found=str(certificate.node)
            )
        keys = {one: self.key(one) for _, one in slots.all()}
        if key_id(keys[slots.active]) != certificate.key_id:
            raise KeyRefused(
                "The active key does not match its certificate.", file=str(self.key_path(slots.active))
            ).with_remedy("Restore both from one backup of the key folder, or enrol the node again.")
        return Identity(certificate, keys[slots.active], keys)

    @property
    def is_enrolled(self) -> bool:
        """Whether slot active has a key. Raises KeyRefused."""
        return self.slots().active is not None

    # --- changing
    def next_key(self, kind: str = "ec") -> PrivateKey:
        """Return the key in slot next, or put a new key of this kind there. Raises KeyRefused."""
        slots = self.slots()
        if slots.next is not None:
            return self.key(slots.next)
        key = new_key(kind)
        new_id = key_id(key)
        write_key(self.key_path(new_id), key, self.passphrase())
        self._save(replace(slots, next=new_id))
        return key

    def retire_next(self, now: datetime) -> None:
        """Move the key in slot next, if there is one, to the retired keys."""
        slots = self.slots()
        if slots.next is not None:
            self._save(replace(slots, next=None, retired=(*slots.retired, RetiredKey(slots.next, now))))

    def store_certificate(self, file: bytes, trust: TrustStore, now: datetime) -> NodeCertificate:
        """Store the certificate of the key in slot next, with its chain, but nothing else that the file contains.

        Raises Untrusted or a subclass if ``trust`` does not accept it for this node, KeyRefused if its key is not in
        slot next.
        """
        chain = _chain(file)
        certificate = trust.verify(_first(file), now, node=self.node, chain=chain)
        if certificate.key_id != self.slots().next:
            raise KeyRefused("The key of the certificate is not in slot next.", key_id=certificate.key_id).with_remedy(
                "Have the authority sign the present request: `semq cert request` prints it."
            )
        write_safely(self.certificate_path(certificate.key_id), chained_pem(certificate, chain))
        return certificate

    def rotate(self, now: datetime) -> NodeCertificate:
        """Move the keys: next to active, active to previous, previous to retired.

        Raises NoIdentity if slot next is empty or its key has no certificate.
        """
        slots = self.slots()
        certificate = self.certificate(slots.next) if slots.next else None
        if slots.next is None or certificate is None:
            raise NoIdentity("There is no certificate in slot next.", folder=str(self.folder))
        retired = slots.retired
        if slots.previous is not None:
            # Not earlier than the new certificate: this node's clock may be slow.
            retired = (*retired, RetiredKey(slots.previous, max(now, certificate.not_before)))
        self._save(Slots(active=slots.next, next=None, previous=slots.active, retired=retired))
        return certificate

    def delete_retired(self, now: datetime, keep_days: float) -> list[str]:
        """Delete the keys that were retired more than ``keep_days`` before ``now``, and before the certificate in slot
        previous was issued; return their ids. Raises KeyRefused, Untrusted.
        """
        # A clock that is wrong for a while deletes nothing: by it, one certificate may be issued at once, but the next
        # one only after two thirds of the validity.
        slots, kept_for = self.slots(), timedelta(days=keep_days)
        expired = [key for key in slots.retired if now - key.since > kept_for]
        previous = self.certificate(slots.previous) if expired and slots.previous else None
        expired = [key for key in expired if previous is not None and previous.not_before - key.since > kept_for]
        if expired:
            self._save(replace(slots, retired=tuple(key for key in slots.retired if key not in expired)))
            for key in expired:
                self.key_path(key.key_id).unlink(missing_ok=True)
                self.certificate_path(key.key_id).unlink(missing_ok=True)
            sync_folder(self.folder / "keys")
        return [key.key_id for key in expired]

    def encrypt_clear_keys(self) -> int:
        """Encrypt the keys stored in clear, if a passphrase is configured; return their number."""
        passphrase = self.passphrase()
        if not passphrase:
            return 0
        clear = [one for _, one in self.slots().all() if not is_encrypted(self.key_path(one))]
        for one in clear:
            write_key(self.key_path(one), self.key(one), passphrase)
        return len(clear)

    def _save(self, slots: Slots) -> None:
        write_safely(self.folder / SLOTS_FILE, msgspec.json.encode(slots))


def chained_pem(certificate: NodeCertificate, chain: Sequence[x509.Certificate]) -> bytes:
    """Return a certificate and its chain as PEM. A file may also contain its private key, which must not be sent."""
    return b"".join((certificate.pem, *(issuer.public_bytes(Encoding.PEM) for issuer in chain)))


_END = b"-----END CERTIFICATE-----"


def _first(pem: bytes) -> bytes:
    head, mark, _ = pem.partition(_END)
    return head + mark


def _chain(pem: bytes) -> list[x509.Certificate]:
    chain = pem.partition(_END)[2]
    if b"BEGIN CERTIFICATE" not in chain:
        return []
    try:
        return x509.load_pem_x509_certificates(chain)
    except ValueError as error:
        raise Untrusted("The chain does not consist of certificates.", fault=shortened(str(error), 200)) from error
