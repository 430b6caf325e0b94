"""Bodies at rest: bodies in the database are encrypted under a key that is not in the database.

The master key encrypts nothing itself. Each process draws a salt and derives its own key from it (HKDF, RFC 5869). A
nonce is a counter and a random part; ``session`` says why. A locked body consists of a mark, the salt, the nonce and
the ciphertext. Only the holder of the master key can make the mark, so no partner can send a body that looks like a
locked body. The context is authenticated: a body that is moved to another row cannot be opened.
"""

from collections import OrderedDict
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from semq.seal.errors import VaultLocked

MARK_LENGTH, SALT_LENGTH, NONCE_LENGTH = 12, 32, 12
RANDOM_LENGTH = 6  # random bytes in each nonce
HEAD_LENGTH = MARK_LENGTH + SALT_LENGTH + NONCE_LENGTH
MASTER_MIN = 16  # bytes
CACHED_MAX = 256  # number of processes whose derived keys are cached for reading


class Vault:
    """Encryption by the key of this process, and decryption of bodies of all processes with the same master key."""

    def __init__(self, master: bytes, salt: bytes, draw: Callable[[int], bytes]) -> None:
        """Prepare the key of this process. ``salt`` is 32 new random bytes; ``draw(n)`` returns n random bytes.

        Raises VaultLocked if the master key is too short to be a secret.
        """
        if len(master) < MASTER_MIN:
            raise VaultLocked("The master key is too short.", bytes=len(master), needed=MASTER_MIN)
        self._master = master
        self._salt = salt
        self._draw = draw
        self._counter = 0
        self._ciphers: OrderedDict[bytes, AESGCM] = OrderedDict()
        self._own = self._derive(salt)
        self._mark = HKDF(SHA256(), MARK_LENGTH, None, b"semq vault 1 mark").derive(master)

    def _derive(self, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(SHA256(), 32, salt, b"semq vault 1").derive(self._master))

    def _cipher(self, salt: bytes) -> AESGCM:
        if salt == self._salt:
            return self._own
        cipher = self._ciphers.get(salt)
        if cipher is None:
            cipher = self._ciphers[salt] = self._derive(salt)
            if len(self._ciphers) > CACHED_MAX:
                self._ciphers.popitem(last=False)
        return cipher

    def lock(self, plain: bytes, context: bytes) -> bytes:
        """Return the encrypted bytes for the database."""
        nonce = self._counter.to_bytes(NONCE_LENGTH - RANDOM_LENGTH, "big") + self._draw(RANDOM_LENGTH)
        self._counter += 1
        return b"".join((self._mark, self._salt, nonce, self._own.encrypt(nonce, plain, context)))

    def unlock(self, locked: bytes, context: bytes) -> bytes:
        """Return the plain bytes. Raises VaultLocked for another master key, another context or altered bytes."""
        try:
            cipher = self._cipher(locked[MARK_LENGTH : MARK_LENGTH + SALT_LENGTH])
            return cipher.decrypt(locked[MARK_LENGTH + SALT_LENGTH : HEAD_LENGTH], locked[HEAD_LENGTH:], context)
        except (InvalidTag, ValueError) as error:
            raise VaultLocked from error

    def is_locked(self, data: bytes) -> bool:
        """Return whether bytes from the database begin with the mark of this master key."""
        return data.startswith(self._mark)
