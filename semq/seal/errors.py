"""What cannot be sealed, opened, believed or proved, and why. Codes 5200–5299."""

from semq.errors import BadInput, Misconfigured, ProtocolViolation, SemqError, Unavailable


class KeyUnknown(BadInput):
    """The session key was wrapped for a key that this node does not have."""

    code = "SEMQ-5201"
    remedy = "Nothing: the sender's node wraps it for the present certificate and sends the document again."


class SealBroken(ProtocolViolation):
    """A sealed document, or what it says of itself, was altered on its way."""

    code = "SEMQ-5202"
    remedy = (
        "It was not recorded and will be sent again; if this goes on, somebody between the two nodes alters traffic."
    )


class SealMalformed(BadInput):
    """The attributes of a sealed document cannot be read."""

    code = "SEMQ-5203"
    remedy = "Compare the versions of the two nodes."


class SignerUnknown(Unavailable):
    """The certificate that signed a session key or a receipt is not known here, or not yet."""

    code = "SEMQ-5204"
    remedy = "The platform's directory brings it; `semq cert list` shows the certificates that this node knows."


class SignerGone(BadInput):
    """The certificate that signed the session key is none of its institution's any more: it was revoked."""

    code = "SEMQ-5214"
    remedy = "Nothing: the sender's node seals it again under its present certificate and sends it as a new message."


class SignatureWrong(ProtocolViolation):
    """A signature does not fit what it stands under."""

    code = "SEMQ-5205"
    remedy = (
        "Nothing is lost: it was not believed, and is asked about again. If it goes on, somebody between the two nodes "
        "alters traffic or signs in another's name: tell both operators (check `violations` of `semq node health`)."
    )


class NotSealed(BadInput):
    """The document came in clear, although this partner's documents have to be sealed."""

    code = "SEMQ-5206"
    remedy = "The sender has to set @Encrypt=1, or secrecy.required_with has to change on one side."


class CannotSeal(Unavailable):
    """No valid certificate of the target is known, so the document cannot be sealed; nothing was accepted."""

    code = "SEMQ-5207"
    remedy = "Submit again when the platform's directory has brought the certificate; `semq cert list` shows it."


class KeyUnfit(BadInput):
    """The kind of key is not one that SEMQ works with."""

    code = "SEMQ-5208"
    remedy = "Use certificates with EC keys (P-256, P-384, P-521) or RSA keys of 2048 bits and more."


class ReceiptForged(ProtocolViolation):
    """A receipt, a floor or a void marker is not signed by the institution that it speaks for."""

    code = "SEMQ-5209"
    remedy = (
        "It was not believed: the message stays open and is asked about again. A node of an older version signs no "
        "floors, markers and positions: update it, or name it in secrecy.unsigned_floors_from. What an institution "
        "without a certificate says counts only if secrecy.unproved_from names it, or with secrecy.mixed_network."
    )


class OriginUnproved(ProtocolViolation):
    """Nothing proves that a document comes from the institution that it names; it was not recorded."""

    code = "SEMQ-5215"
    remedy = (
        "The sender's node needs a certificate that this node believes, and a version that signs documents; to take "
        "its documents all the same, name it in secrecy.unproved_from."
    )


class CertificateUnvouched(ProtocolViolation):
    """A partner has another certificate, and none of its former keys vouches for that."""

    code = "SEMQ-5216"
    remedy = (
        "Ask the institution, by a way that does not lead through the platform, whether it has enrolled anew. If not, "
        "somebody speaks in its name: pin its certificate (secrecy.pins)."
    )


class VaultLocked(Misconfigured):
    """What is kept under the node's master key cannot be opened with the key that was given."""

    code = "SEMQ-5210"
    remedy = "Give the node the master key that was in use when it was written (see OPERATIONS.md)."


class ProofWrong(SemqError):
    """The file does not prove what it says."""

    code = "SEMQ-5211"
    remedy = "Ask whoever gave you the file for the one that `semq msg prove` wrote."


class LedgerChanged(SemqError):
    """The ledger is not as this node wrote it."""

    code = "SEMQ-5212"
    remedy = "Compare it with a backup and with the ledgers of the partners; somebody wrote to the database."


class HeaderUnfit(BadInput):
    """A header of the application holds a value that a seal cannot bind."""

    code = "SEMQ-5213"
    remedy = "Use texts, numbers, flags, octets, lists and tables of these."
