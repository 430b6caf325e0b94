"""Alarms and rows that the renewals and revocations of a campaign explain. All other alarms are faults.

A kill, a cut or a renewal causes no alarm at honest nodes. After the certificates of an institution were revoked, its
partner must raise alarms, because it no longer accepts signatures of the old key, and the new certificate has no
voucher.

| what                          | where          | explained by                                                      |
|-------------------------------|----------------|-------------------------------------------------------------------|
| VIOLATION SEMQ-5214, 5204     | at the partner | a revocation of X, the institution that the alarm is about        |
| VIOLATION SEMQ-5216           | at the partner | a revocation of X; at most one line for each certificate issued   |
| VIOLATION "… more violations" | at the partner | a revocation of X, and a minute with the maximum number of lines  |
| VOIDED                        | at the hub     | a revoked sender, whose message ended REJECTED with SEMQ-5214     |
| REJECTED, accepted again      | at the sender  | SEMQ-5214: its revocation; SEMQ-5201: another key of its partner  |
| row of class 2, SEMQ-5214     | at both ends   | a revocation of its sender                                        |
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from semq.engine.violations import LINES_PER_MINUTE
from semq.seal.errors import CertificateUnvouched, KeyUnknown, SignerGone, SignerUnknown
from semq.store.rows import Event, Side

MORE = " more violations of this peer within "


class ExcusedLine(NamedTuple):
    """An alarm in a ledger; in a campaign only a change of certificates may cause it."""

    node: str
    side: int
    event: int
    lk0: str
    target: str
    detail: str

    @property
    def code(self) -> str:
        """The error code at the beginning of the detail."""
        return self.detail.partition(" ")[0]

    def is_about(self, address: str) -> bool:
        """Whether the line is about a message of a node, or about the node itself."""
        return self.lk0.startswith(f"{address}.") if self.lk0 else self.target == address

    def __str__(self) -> str:
        return f"{self.node} noted {Event(self.event).name} of {self.lk0 or self.target}: {self.detail}"


@dataclass
class CertificateChanges:
    """The numbers of renewals and revocations in a campaign, by the name of the node, and what they explain."""

    address: dict[str, str]  #: address of each institution
    partner: dict[str, str]  #: partner of each institution
    receivers: tuple[str, ...] = ()  #: further institutions that receive documents of both
    revoked: Counter[str] = field(default_factory=Counter)
    renewed: Counter[str] = field(default_factory=Counter)

    def unexplained(self, lines: Iterable[ExcusedLine], given_up: Iterable[str] = ()) -> Iterator[ExcusedLine]:
        """Return the lines without an explanation.

        ``given_up``: LK0s of messages that ended REJECTED with SEMQ-5214 at revoked senders.
        """
        lines, voided = list(lines), set(given_up)
        for line in lines:
            if line.event == Event.VOIDED:
                if line.side != Side.HUB or line.lk0 not in voided:
                    yield line
            elif line.event != Event.VIOLATION or not any(self._explains(side, line, lines) for side in self.address):
                yield line

    def _explains(self, side: str, line: ExcusedLine, lines: list[ExcusedLine]) -> bool:
        """Whether the revocation of one side explains an alarm at the other."""
        address = self.address[side]
        if (
            not self.revoked[side]
            or line.node not in (self.partner[side], *self.receivers)
            or not line.is_about(address)
        ):
            return False
        if line.code in (SignerGone.code, SignerUnknown.code):
            return True
        about_side = [alarm for alarm in lines if alarm.node == line.node and alarm.is_about(address)]
        if line.code == CertificateUnvouched.code:
            details = [alarm.detail for alarm in about_side if alarm.code == line.code]
            return len(details) == len(set(details)) <= self.revoked[side] + self.renewed[side]
        return MORE in line.detail and sum(MORE not in alarm.detail for alarm in about_side) >= LINES_PER_MINUTE

    def codes_of_resealing(self, side: str) -> set[str]:
        """Return the codes of refusals after which documents of a side are sent again as new messages."""
        partner = self.partner[side]
        codes = {SignerGone.code} if self.revoked[side] else set()
        return codes | ({KeyUnknown.code} if self.revoked[partner] or self.renewed[partner] else set())

    def staying_rows(self, node: str) -> dict[str, str]:
        """Return, by table, the condition of rows that wait for an operator of a node.

        These are messages of class 2 whose signature the receiver refused, at their sender and at their receiver.
        """
        stays: dict[str, str] = {}
        refused = f"save_fwd = 2 AND reason_code = '{SignerGone.code}'"
        if self.revoked[node]:
            stays["tb_0031"] = refused
            stays["tb_0031_body"] = f"object_id IN (SELECT object_id FROM tb_0031 WHERE {refused})"
        if node in self.partner and self.revoked[self.partner[node]]:
            refused += f" AND lk0 LIKE '{self.address[self.partner[node]]}.%'"
            stays["tb_0030"] = refused
            stays["tb_0030_body"] = f"bref IN (SELECT bref FROM tb_0030 WHERE {refused})"
        return stays
