"""Private keys: creation, writing, reading, names. EC on P-256 by default; P-384 and RSA are accepted.

On disk a key is PKCS#8 in PEM, mode 0600, encrypted if the node has a passphrase. A key file to which others have
rights is refused instead of repaired, because the content may already be known. A node uses one key for TLS, for
signatures and for unwrapping session keys.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from msgspec import Struct

from semq.pki.errors import KeyRefused
from semq.store.files import write_safely

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
CURVES = ("secp256r1", "secp384r1")
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192  # smaller keys are weak, larger ones slow to verify
RSA_BITS_NEW = 3072
KEY_FILE_MAX = 64 * 1024  # bytes
SECRET_REMEDY = (
    "Provide the passphrase or master key where the configuration says (tls.passphrase_*, secrecy.bodies_key_*); "
    "a file must be for the node's user only (chmod 600)."
)


class SecretSource(Struct, frozen=True):
    """The source of the passphrase of key files, or of the master key of stored bodies.

    If all fields are empty, there is no secret: keys or bodies are stored in clear. Precedence: ``file`` (its first
    line), ``credential`` (a name below $CREDENTIALS_DIRECTORY, systemd.exec(5) LoadCredential), ``variable`` (a name in
    the environment). The secret is read at each use, so that settings do not contain it.
    """

    file: Path | None = None
    credential: str = ""
    variable: str = ""

    def read(self, environment: Mapping[str, str] | None = None) -> bytes | None:
        """Return the secret, or None if none is configured. Raises KeyRefused if it cannot be read.

        ``environment`` None: the environment of the process.
        """
        try:
            return self._read(os.environ if environment is None else environment)
        except KeyRefused as error:
            error.with_remedy(SECRET_REMEDY)
            raise

    def _read(self, environment: Mapping[str, str]) -> bytes | None:
        if self.file is not None:
            return _first_line(self.file)
        if self.credential:
            folder = environment.get("CREDENTIALS_DIRECTORY")
            if not folder:
                raise KeyRefused("There is no systemd credential: $CREDENTIALS_DIRECTORY is not set.")
            return _first_line(Path(folder) / self.credential)
        if self.variable:
            value = environment.get(self.variable)
            if not value:
                raise KeyRefused(f"The environment variable {self.variable} is not set, or is empty.")
            return value.encode()
        return None


def _first_line(path: Path) -> bytes:
    line = read_private(path).split(b"\n", 1)[0].strip()
    if not line:
        raise KeyRefused("The first line of the file is empty.", file=str(path))
    return line


def new_key(kind: str = "ec") -> PrivateKey:
    """Return a new key: ``ec`` (P-256) or ``rsa`` (3072 bits)."""
    if kind == "rsa":
        return rsa.generate_private_key(65537, RSA_BITS_NEW)
    return ec.generate_private_key(ec.SECP256R1())


def is_accepted(key: object) -> bool:
    """Return whether a public key is of a kind and size that SEMQ accepts."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key.curve.name in CURVES
    return isinstance(key, rsa.RSAPublicKey) and RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX


def key_id(key: PrivateKey | PublicKey) -> str:
    """Return @KeyId of a key pair: 16 bytes of the SHA-256 of the SubjectPublicKeyInfo (RFC 5280), hexadecimal."""
    public = key.public_key() if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) else key
    spki = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).digest()[:16].hex()


def write_key(path: Path, key: PrivateKey, passphrase: bytes | None) -> None:
    """Write a key completely or not at all; the file has mode 0600 from its creation. ``passphrase`` None: in clear."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    write_safely(path, pem, 0o600)


def read_key(path: Path, passphrase: bytes | None) -> PrivateKey:
    """Read a key.

    Raises KeyRefused if the file is missing or not a key, if other users have rights to it, if the key is of an
    unaccepted kind, or if the passphrase is missing or wrong.
    """
    data = read_private(path)
    # A key in clear is accepted despite a passphrase, so that passphrases can be introduced (``encrypt_clear_keys``).
    password = passphrase if b"ENCRYPTED" in data else None
    try:
        key = serialization.load_pem_private_key(data, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without the cause: its text may contain parts of the input.
        fault = "The passphrase is missing or wrong." if b"ENCRYPTED" in data else "The file has no private key."
        raise KeyRefused(fault, file=str(path)) from None
    if not is_accepted(key.public_key()):
        raise KeyRefused("The kind or size of the key is not accepted.", file=str(path))
    return cast(PrivateKey, key)


def is_encrypted(path: Path) -> bool:
    """Return whether a key file needs a passphrase. Raises KeyRefused."""
    return b"ENCRYPTED" in read_private(path)


def read_private(path: Path) -> bytes:
    """Return the content of a file to which only its owner, the present user or root, has rights. Raises KeyRefused.

    The opened file is checked, so that it cannot be replaced between check and reading.
    """
    try:
        # A named pipe would let the start wait until somebody writes to it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise KeyRefused("It is not a regular file.", file=str(path))
            if state.st_mode & 0o077:
                mode = oct(state.st_mode & 0o777)
                raise KeyRefused("Users other than its owner have rights to the file.", file=str(path), mode=mode)
            if state.st_uid not in (0, os.geteuid()):
                refused = KeyRefused("The file belongs to another user.", file=str(path), uid=state.st_uid)
                raise refused.with_remedy("Run SEMQ as the user who owns the file, or give the file to that of SEMQ.")
            return file.read(KEY_FILE_MAX)
    except OSError as error:
        raise KeyRefused("The file cannot be read.", file=str(path), fault=error.strerror) from error
