"""Promises that no outcome shows: to whom, when and in whose name documents are given, sealed bodies, refusals."""

from collections.abc import Iterator
from math import inf

from semq.engine.errors import RefusedByOperator, TargetNotAllowed
from semq.seal.errors import SignerGone
from semq.store.postgres.errors import RowRefused
from tests.campaign.faults import CLOCK_S_MAX
from tests.campaign.notebook import Handed, Notebook, NotedReceipt
from tests.campaign.statements import LedgerStatements
from tests.campaign.world import ADDRESSES, CLOCKED

CLOCKS_S = 1.0  # between the driver's clock and a decision of a node
CLOCKED_ADDRESSES = {ADDRESSES[name] for name in CLOCKED}
# Documents handed over while a fault could refuse them, of which some are refused in any case. A revocation ends the
# link of its sender, so that it refuses only what was already under way; other faults need not refuse anything.
EFFECTS_FROM = {RefusedByOperator.code: 40, RowRefused.code: 40, TargetNotAllowed.code: 40, SignerGone.code: 400}


def broken(notebook: Notebook, statements: LedgerStatements) -> Iterator[tuple[int, str]]:
    """Yield number and description of each broken promise."""
    for document in notebook.documents.values():
        receipts = notebook.receipts[document.number]
        for text in (*_to_whom(document, receipts), *_when(document, receipts), *_after_expiry(document, statements)):
            yield document.number, text
        if not {"large", "unknown"} & document.traits:
            for text in _bodies(document, statements):
                yield document.number, text


def effects(notebook: Notebook, statements: LedgerStatements) -> dict[str, list[int]]:
    """Return, by code, how many documents were handed over while a fault could refuse them, and how many it refused."""
    counts: dict[str, list[int]] = {}
    for fault in notebook.permitted:
        concerned, refused = counts.setdefault(fault.codes[0], [0, 0])
        for document in notebook.documents.values():
            is_between = any(fault.is_between(document.source, receiver) for receiver in document.receivers)
            if is_between and fault.began <= document.handed_at <= fault.ended:
                stories = statements.by_number.get(document.number, [])
                reasons = " ".join([document.refusal, *(f"{each.reason} {each.refused}" for each in stories)])
                concerned, refused = concerned + 1, refused + any(code in reasons for code in fault.codes)
        counts[fault.codes[0]] = [concerned, refused]
    return counts


def without_effect(counts: dict[str, list[int]]) -> Iterator[str]:
    """Yield a complaint about each fault that should have refused some documents, and refused none."""
    for code, (concerned, refused) in counts.items():
        if not refused and concerned >= EFFECTS_FROM.get(code, inf):
            yield f"none of {concerned} documents was refused with {code}, though a fault required it"


def _to_whom(document: Handed, receipts: list[NotedReceipt]) -> Iterator[str]:
    for receipt in receipts:
        if receipt.receiver not in document.receivers:
            yield f"given to {receipt.receiver}, who is none of its receivers {document.receivers}"
        if receipt.source and receipt.source != ADDRESSES[document.source]:
            yield f"given to {receipt.receiver} as a document of {receipt.source}"


def _when(document: Handed, receipts: list[NotedReceipt]) -> Iterator[str]:
    tolerated_s = CLOCKS_S + (CLOCK_S_MAX if document.source in CLOCKED else 0)
    for receipt in receipts:
        if receipt.at < document.not_before / 1000 - tolerated_s:
            yield f"given to {receipt.receiver} {document.not_before / 1000 - receipt.at:.1f} s too early"


def _after_expiry(document: Handed, statements: LedgerStatements) -> Iterator[str]:
    """A receiver's node records no document after its expiry (PROTOCOL.md section 12)."""
    if not document.expires_at:
        return
    for story in statements.by_number.get(document.number, []):
        is_clocked = story.target.partition("/")[0] in CLOCKED_ADDRESSES
        tolerated_s = CLOCKS_S + (CLOCK_S_MAX if is_clocked else 0)
        if story.received and story.received_at > document.expires_at / 1000 + tolerated_s:
            yield f"recorded by {story.target} {story.received_at - document.expires_at / 1000:.1f} s after its expiry"


def _bodies(document: Handed, statements: LedgerStatements) -> Iterator[str]:
    """The ledgers contain digests of what is carried: never of the clear body of a sealed document."""
    for story in statements.by_number.get(document.number, []):
        if "sealed" in document.traits and document.digest in story.digests:
            yield f"{story.lk0} was carried in clear"
        elif "sealed" not in document.traits and story.digests - {document.digest}:
            yield f"{story.lk0} was carried with other bytes"
