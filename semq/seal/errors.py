"""Errors of sealing, opening, verifying and proving. Codes 5200–5299."""

import re
from typing import Self

from semq.errors import BadInput, Misconfigured, ProtocolViolation, SemqError, Unavailable


class KeyUnknown(BadInput):
    """The session key was wrapped for a key that this node does not have."""

    code = "SEMQ-5201"
    remedy = "None needed: the sender's node wraps the key for the current certificate and sends the document again."


class SealBroken(ProtocolViolation):
    """A sealed document, or one of its attributes, was altered in transit."""

    code = "SEMQ-5202"
    remedy = (
        "It was not recorded and will be sent again; if this continues, the traffic between the two nodes is altered."
    )


class SealMalformed(BadInput):
    """The attributes of a sealed document cannot be read."""

    code = "SEMQ-5203"
    remedy = "Compare the versions of the two nodes."


class SignerUnknown(Unavailable):
    """This node knows no certificate for the key that signed a session key, a document or a receipt."""

    code = "SEMQ-5204"
    remedy = (
        "The hub's directory delivers it; `semq cert list` shows the certificates that this node knows. If "
        "secrecy.pins names the institution, compare the pins with its present certificate."
    )


class SignerAwaited(SignerUnknown):
    """Documents or receipts are ignored until they are repeated: the certificate of their signer has not arrived."""

    code = "SEMQ-5217"
    remedy = (
        "None needed: signed data may arrive before a new certificate. If the certificate is still missing after four "
        "inquiry intervals, documents are refused (SEMQ-5214; SEMQ-5204 if no valid one is known), and receipts are "
        "violations (SEMQ-5204)."
    )
    is_first = True  #: whether this is the first copy or packet for which the certificate is awaited


class SignerGone(BadInput):
    """No valid certificate belongs to the key that signed a document or its session key.

    The certificate was revoked, or has not arrived in time.
    """

    code = "SEMQ-5214"
    remedy = (
        "None needed if the sender has enrolled again: its node sends the document again under its new key, as a new "
        "message. A document that remains in `semq failed list` of the sender must be submitted again."
    )

    @classmethod
    def of(cls, key: str) -> Self:
        """Return the refusal of a document signed with this key; ``key``: its id."""
        return cls(f"No valid certificate belongs to key {key} any more.")

    @staticmethod
    def key_in(text: str) -> str:
        """Return the id of the key that the text of a refusal names, or an empty string."""
        match = re.search(r"\bkey ([0-9a-f]+)\b", text)
        return match[1] if match is not None else ""


class SignatureWrong(ProtocolViolation):
    """A signature does not match the signed data."""

    code = "SEMQ-5205"
    remedy = (
        "Nothing is lost: the data was rejected, and the inquiry is repeated. If this continues, traffic between the "
        "two nodes is altered, or signed in another's name: inform both operators (check `violations` of `semq node "
        "health`)."
    )


class NotSealed(BadInput):
    """The document arrived in clear, although documents of this partner must be sealed."""

    code = "SEMQ-5206"
    remedy = "Let the sender set @Encrypt=1, or change secrecy.required_with on one side."


class CannotSeal(Unavailable):
    """No valid certificate of the target is known, so the document cannot be sealed; nothing was accepted."""

    code = "SEMQ-5207"
    remedy = (
        "Submit it again when the certificate has arrived, from the hub or by the direct link"
        " (`semq node status`, sealing)."
    )


class KeyUnfit(BadInput):
    """SEMQ does not support this kind of key."""

    code = "SEMQ-5208"
    remedy = "Use certificates with EC keys (P-256, P-384, P-521) or RSA keys of 2048 bits and more."


class ReceiptForged(ProtocolViolation):
    """A statement of an institution (receipt, floor, void marker, document, story) has no readable signature."""

    code = "SEMQ-5209"
    remedy = (
        "Rejected; the inquiry is repeated. Update a node that is too old to sign floors and markers, or name it in "
        "secrecy.unsigned_floors_from. A node without a certificate must be named in secrecy.unproved_from, unless "
        "secrecy.mixed_network is set."
    )


class OriginUnproved(ProtocolViolation):
    """There is no proof that a document comes from the institution that it names; it was not recorded."""

    code = "SEMQ-5215"
    remedy = (
        "The sender's node needs a certificate that this node trusts, and a version that signs documents; to accept "
        "its documents anyway, name it in secrecy.unproved_from."
    )


class CertificateUnvouched(ProtocolViolation):
    """A partner has a new certificate that none of its former keys has signed."""

    code = "SEMQ-5216"
    remedy = (
        "Ask the institution, by a channel other than the hub, whether it has enrolled again. If not, another party "
        "is using its name: pin its certificate (secrecy.pins)."
    )


class VaultLocked(Misconfigured):
    """Data encrypted under the node's master key cannot be decrypted with the given key."""

    code = "SEMQ-5210"
    remedy = "Configure the master key that was in use when the data was written (see the operator's guide)."


class ProofWrong(SemqError):
    """The file does not prove what it claims."""

    code = "SEMQ-5211"
    remedy = (
        "Ask the source of the file for the file that `semq msg prove` wrote. With --document, check that it is the "
        "delivered document."
    )


class LedgerChanged(SemqError):
    """The ledger differs from what this node wrote."""

    code = "SEMQ-5212"
    remedy = (
        "Compare it with a backup and with the ledgers of the partners; something other than the node has changed its "
        "database."
    )


class HeaderUnfit(BadInput):
    """A header of the application has a value that a seal cannot bind."""

    code = "SEMQ-5213"
    remedy = "Use text, numbers, booleans, bytes, and lists and tables of these."
