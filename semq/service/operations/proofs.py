"""Operations ``msg.prove``, which makes the proof of a delivery, and ``ledger.verify``, which checks the hash chain.

A proof is built from the ledger, ``semq_receipts`` and, for a sealed document, ``semq_session_key``.
"""

import re
from datetime import date
from typing import Annotated, Protocol

from msgspec import Meta
from sqlalchemy import Connection

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.messages import TracedLine
from semq.engine.secrecy.sealing import Sealing
from semq.errors import BadInput
from semq.moments import milliseconds
from semq.seal.chain import ChainLink
from semq.seal.proof import Proof, check_proof, write_proof
from semq.seal.receipts import HASH_LENGTH, path, read_signature
from semq.seal.token import bytes_of
from semq.service.credentials.keyring import NodeKeys
from semq.service.message_names import SHOWN_MAX, find_accepted, fits_several
from semq.service.operations.arguments import Arguments, ByName
from semq.service.operations.operation import look
from semq.service.operations.ports import OperatedNode
from semq.store.postgres import chain, ledger_partitions
from semq.store.postgres.store import PostgresStore
from semq.store.views import messages, names
from semq.umx_t.address import parse_address

# As ``semq.engine.sender.receipts`` writes it; older receivers sign no position. Older ledgers have "place" and "sid".
RECEIPT = re.compile(r"receipt (\d+),? (?:entry|place) (\d+)(?:,? (?:position|sid) (none|-1|\d+))?,? stated at (\S+)")
NO_POSITION = ("none", "-1")
HEAD = r"^[0-9]{1,18}:([0-9a-fA-F]{2}){1,64}$"
# Parts of the detail of ACCEPTED; older ledgers have no part before them.
SEALED = re.compile(r"(?:^|, )sealed ([A-Za-z0-9_-]{22})(?:, |$)")
ORIGIN = re.compile(r"(?:^|, )the document of (\S+), sealed for key")
ORIGINS_MAX = 100  # times that one document may have been sealed again


class NoReceipt(BadInput):
    """The ledger has no signed receipt for this document."""

    code = "SEMQ-2230"
    remedy = (
        "A document has a receipt only if it was delivered to a partner with a certificate, and if the receipt arrived:"
        " the answer to an inquiry ends it, too. `semq msg trace` shows the events of the document."
    )


class VerifyLedger(Arguments, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """The days of the ledger, and an earlier result."""

    first: Annotated[date | None, Meta(description="First day, for instance 2031-03-01; default: the oldest.")] = None
    last: Annotated[date | None, Meta(description="Last day; default: the newest.")] = None
    head: Annotated[
        Annotated[str, Meta(pattern=HEAD, max_length=200)] | None,
        Meta(description="NUMBER:HASH, printed by an earlier check."),
    ] = None


class CheckedLedger(OperationAnswer, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """The result of a check of the hash chain."""

    first: str  #: first day, in UTC; empty: there are no links
    last: str
    lines: int
    links: int
    head: str  #: NUMBER:HASH of the newest link, for a later check; empty: there is none


class DeliveryProof(OperationAnswer, frozen=True, kw_only=True):
    """The proof of a delivery."""

    lk0: str
    receiver: str
    stated_at: int  #: milliseconds since 1970 UTC, as the receiver states it
    proof: str  #: contents of the proof file


class ProvingNode(Protocol):
    """The parts of a node that proofs use."""

    store: PostgresStore
    sealing: Sealing | None


class LedgerCheck:
    """The handler of ``ledger.verify``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def verify(self, arguments: VerifyLedger) -> CheckedLedger:
        """Compare the lines of the ledger with its hash chain, by default for all kept days. Raises LedgerChanged."""
        store = self._node.store
        head = store.chain.head

        def check(connection: Connection) -> CheckedLedger:
            raw = connection.connection.driver_connection
            assert raw is not None
            first = arguments.first or ledger_partitions.oldest(raw) or date(2000, 1, 1)
            raw.rollback()
            last = arguments.last or date(9999, 12, 30)
            result = chain.verify(raw, first, last, head, _read_head(arguments.head))
            return CheckedLedger(
                first=result.first_day,
                last=result.last_day,
                lines=result.lines,
                links=result.links,
                head=_head_text(result.head),
            )

        return await store.execute(check)


def _head_text(link: ChainLink | None) -> str:
    return "" if link is None else f"{link.last}:{link.hash.hex()}"


def _read_head(text: str | None) -> tuple[int, bytes] | None:
    if text is None:
        return None
    number, _, hash_ = text.partition(":")
    return int(number), bytes.fromhex(hash_)


class Proofs:
    """The handler of ``msg.prove``."""

    def __init__(self, node: ProvingNode) -> None:
        self._node = node

    async def prove(self, arguments: ByName) -> DeliveryProof:
        """Return the contents of the proof file of a delivery.

        Raises NoReceipt, NotThere, NotAccepted, TooLate, BadArguments, and the errors of ``check_proof``.
        """
        execute, name, sealing = self._node.store.execute, arguments.id, self._node.sealing
        lk0s = await execute(names.find_in_ledger, name)
        if len(lk0s) > 1:
            first_lines = [
                {"lk0": lk0, **line} for lk0 in lk0s[:SHOWN_MAX] for line in (await execute(messages.trace, lk0))[:1]
            ]
            raise fits_several("The name fits several documents.", lk0s, first_lines)
        if not lk0s:
            await find_accepted(self._node.store, name)
        if not lk0s or sealing is None:
            raise NoReceipt(id=name)
        lines = await execute(messages.trace, lk0s[0])
        accepted = _sender_line(lines, "ACCEPTED")
        receipt = RECEIPT.fullmatch((_sender_line(lines, "DELIVERED") or {}).get("detail", ""))
        if accepted is None or receipt is None:
            raise NoReceipt(id=lk0s[0])
        number, place, at = int(receipt[1]), int(receipt[2]), milliseconds(receipt[4])
        sid = None if receipt[3] is None else -1 if receipt[3] in NO_POSITION else int(receipt[3])
        receipts = await execute(messages.receipts, number)
        receiver = str(parse_address(accepted["target"]).node)
        keys = sealing.keys
        if receipts is None or receipts.source != receiver or not isinstance(keys, NodeKeys):
            raise NoReceipt(id=lk0s[0])
        key_id, signature = read_signature(receipts.signature)
        leaves = [receipts.leaves[n : n + HASH_LENGTH] for n in range(0, len(receipts.leaves), HASH_LENGTH)]
        proof = Proof(
            receiver=receiver,
            sender=str(sealing.node),
            lk0=lk0s[0],
            status="RECV",
            digest=accepted["digest"],
            at=at,
            sid=sid,
            salt=await self._salt(sealing, lk0s[0], accepted["detail"]),
            place=place,
            count=len(leaves),
            path=path(leaves, place),
            signature=signature,
            certificates=[keys.certificate(receiver, key_id) or ""],
        )
        check_proof(proof, keys.signer(receiver, key_id))  # never return an invalid proof
        return DeliveryProof(lk0=proof.lk0, receiver=receiver, stated_at=at, proof=write_proof(proof).decode())

    async def _salt(self, sealing: Sealing, lk0: str, detail: str) -> bytes | None:
        """Return the salt of a document; if it was sealed again, the salt of its first message.

        ``detail``: of the ledger line ACCEPTED. Returns None if the document was not sealed, or if its session
        key is no longer kept.
        """
        execute = self._node.store.execute
        for _ in range(ORIGINS_MAX):
            origin = ORIGIN.search(detail)
            if origin is None:
                break
            lk0 = origin[1]
            line = _sender_line(await execute(messages.trace, lk0), "ACCEPTED")
            detail = line["detail"] if line is not None else ""
        sealed = SEALED.search(detail)
        session_key = await execute(messages.kept_key, bytes_of(sealed[1])) if sealed is not None else None
        return None if session_key is None else sealing.salt(session_key, lk0)


LEDGER = (look("ledger.verify", AccessRole.OPERATOR, VerifyLedger, LedgerCheck.verify),)
PROOFS = (look("msg.prove", AccessRole.VIEWER, ByName, Proofs.prove),)


def _sender_line(lines: list[TracedLine], event: str) -> TracedLine | None:
    return next((line for line in lines if line["event"] == event and line["side"] == "sender"), None)
