"""What a node knows of a message, whether it stands in a queue or has been cleaned: the ledger remembers what queues
forget.
"""

from collections.abc import Mapping
from typing import Any

from semq.app.errors import RefusedByNode
from semq.app.requests import Requests

NOT_THERE = "SEMQ-1207"
# Lines of the ledger with which a message ends at its sender.
ENDS = ("DELIVERED", "REJECTED", "CANCELLED", "LOST", "UNKNOWN", "DROPPED")


async def look(requests: Requests, name: str, timeout_s: float) -> dict[str, Any]:
    """The row of a message, or what the ledger tells of one that has no row any more (``cleaned`` is then true).

    Raises what asking raises; RefusedByNode with code SEMQ-1207 if the node has never heard of it.
    """
    try:
        shown: dict[str, Any] = dict(await requests.operate("msg.show", {"id": name}, timeout_s))
    except RefusedByNode as error:
        if error.code != NOT_THERE:
            raise
        return from_ledger(await requests.operate("msg.trace", {"id": name}, timeout_s))
    if shown["side"] == "inbound":
        # A message to one's own node: the sender's row may be cleaned while the receiver's waits for its application.
        past = from_ledger(await requests.operate("msg.trace", {"id": shown["lk0"]}, timeout_s))
        shown |= {name: past[name] for name in ("outcome", "ended_at", "reason") if past.get(name)}
    return shown


def from_ledger(traced: Mapping[str, Any]) -> dict[str, Any]:
    """A message out of the lines about it."""
    facts: dict[str, Any] = {"lk0": traced["lk0"], "cleaned": True, "outcome": None}
    for line in traced["events"]:
        for name in ("target", "app_key", "digest", "size"):
            if line.get(name) and name not in facts:
                facts[name] = line[name]
        if line.get("side") == "receiver":
            facts["side"] = "inbound"
        if line.get("event") in ENDS and line.get("side") == "sender":
            detail = str(line.get("detail") or "")  # the reason, or else the news that ended it
            reason = detail if detail.startswith("SEMQ-") else None
            facts |= {"outcome": line["event"], "ended_at": line["at"], "reason": reason}
    return facts
