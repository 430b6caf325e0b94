"""Keys by kind: a table of algorithms, ids of keys, wrapping of session keys, and signatures.

Session keys are wrapped by HPKE in base mode (RFC 9180: DHKEM over the curve of the certificate, HKDF, AES-256-GCM) for
EC keys, and by RSA-OAEP with SHA-256 (RFC 8017) for RSA keys. Signatures are ECDSA with the hash that matches the curve
(FIPS 186-5), or RSA-PSS. HPKE's base mode does not authenticate the sender, so ``session`` signs each wrapped key. A
node has one key for TLS, wrapping and signing. Data of one use are never valid for another use: the contexts of wraps
and signed data start with different labels (``canonical``), and neither is a TLS transcript.
"""

from hashlib import sha256

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

from semq.seal.errors import KeyUnfit, SealBroken, SealMalformed, SignatureWrong

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

RSA_BITS_MIN = 2048
KEY_ID_LENGTH = 32  # characters


class Curve(Struct, frozen=True):
    """The algorithms for one curve."""

    alg: str
    suite: Suite
    hash: HashAlgorithm


def _curve(name: str, kem: KEM, kdf: KDF, hash_: HashAlgorithm) -> Curve:
    return Curve(f"HPKE-{name}+A256GCM", Suite(kem, kdf, AEAD.AES_256_GCM), hash_)


# Curve by its name | @Alg, suite for wrapping session keys, hash for signatures.
CURVES: dict[str, Curve] = {
    "secp256r1": _curve("P256", KEM.P256, KDF.HKDF_SHA256, SHA256()),
    "secp384r1": _curve("P384", KEM.P384, KDF.HKDF_SHA384, SHA384()),
    "secp521r1": _curve("P521", KEM.P521, KDF.HKDF_SHA512, SHA512()),
}
RSA_ALG = "RSA-OAEP-SHA256+A256GCM"
ALGORITHMS = frozenset({RSA_ALG, *(curve.alg for curve in CURVES.values())})


def key_id(key: PublicKey) -> str:
    """Return the id of a key: the first half of the SHA-256 of its public part, hexadecimal."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:KEY_ID_LENGTH]


def alg_of(key: object) -> str:
    """Return the value of @Alg for a session key wrapped for this key. Raises KeyUnfit."""
    if isinstance(key, rsa.RSAPublicKey | rsa.RSAPrivateKey) and key.key_size >= RSA_BITS_MIN:
        return RSA_ALG
    if isinstance(key, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey) and key.curve.name in CURVES:
        return CURVES[key.curve.name].alg
    raise KeyUnfit(kind=type(key).__name__)


def wrap(key: PublicKey, secret: bytes, context: bytes) -> bytes:
    """Wrap a session key for the owner of ``key``; it can be unwrapped with the same context only."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.encrypt(secret, _oaep(context))
    return CURVES[key.curve.name].suite.encrypt(secret, key, info=context)


def unwrap(key: PrivateKey, alg: str, wrapped: bytes, context: bytes) -> bytes:
    """Return the session key. Raises SealMalformed if ``alg`` is not the algorithm of the key, SealBroken if the
    wrapped key or its context was altered.
    """
    if alg != alg_of(key):
        raise SealMalformed("The algorithm does not match the key.", alg=alg[:60], of_key=alg_of(key))
    try:
        if isinstance(key, rsa.RSAPrivateKey):
            return key.decrypt(wrapped, _oaep(context))
        return CURVES[key.curve.name].suite.decrypt(wrapped, key, info=context)
    except (InvalidTag, ValueError) as error:
        raise SealBroken("The session key cannot be unwrapped: it, or data bound to it, was altered.") from error


def _oaep(context: bytes) -> padding.OAEP:
    return padding.OAEP(padding.MGF1(SHA256()), SHA256(), label=sha256(context).digest())


def sign(key: PrivateKey, message: bytes) -> bytes:
    """Return a signature over a message, which must start with a label of its own."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, _pss(), SHA256())
    # Deterministic (RFC 6979): random numbers that repeat after a snapshot of a machine's memory would reveal the key.
    return key.sign(message, ec.ECDSA(CURVES[key.curve.name].hash, deterministic_signing=True))


def verify(key: PublicKey, signature: bytes, message: bytes) -> None:
    """Verify a signature. Raises SignatureWrong."""
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, message, _pss(), SHA256())
        else:
            key.verify(signature, message, ec.ECDSA(CURVES[key.curve.name].hash))
    except InvalidSignature as error:
        raise SignatureWrong from error


def _pss() -> padding.PSS:
    return padding.PSS(padding.MGF1(SHA256()), SHA256.digest_size)
