"""Alarms and rows that the renewals and revocations of a campaign explain. All other alarms are faults.

After a revocation, the partner must raise alarms: the signer is unknown, and no voucher introduces the new certificate.

| what                           | where          | explained by                                                    |
|--------------------------------|----------------|-----------------------------------------------------------------|
| VIOLATION SEMQ-5214, 5204      | at the partner | a revocation of X, the institution that the alarm is about      |
| VIOLATION SEMQ-5216            | at the partner | a revocation of X; at most one line for each certificate issued |
| VIOLATION "… more violations"  | at the partner | a revocation of X, and at least LINES_PER_MINUTE other lines    |
| VOIDED                         | at the hub     | a revoked sender, whose message ended REJECTED with SEMQ-5214   |
| REJECTED SEMQ-5214, sent again | at the sender  | a revocation of the sender                                      |
| REJECTED SEMQ-5201, sent again | at the sender  | a renewal or revocation of the sender's partner                 |
| row of class 2, SEMQ-5214      | at both ends   | a revocation of its sender                                      |

``CertificateChanges.receivers`` may raise the alarms of a partner, too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from semq.engine.violations import LINES_PER_MINUTE
from semq.seal.errors import CertificateUnvouched, KeyUnknown, SignerGone, SignerUnknown
from semq.store.rows import Event, Side

MORE = " more violations of this peer within "


class AlarmLine(NamedTuple):
    node: str
    side: int
    event: int
    lk0: str
    target: str
    detail: str

    @property
    def code(self) -> str:
        return self.detail.partition(" ")[0]

    def is_about(self, address: str) -> bool:
        """Return whether the line is about a node or its messages."""
        return self.lk0.startswith(f"{address}.") if self.lk0 else self.target == address

    def __str__(self) -> str:
        return f"{self.node} noted {Event(self.event).name} of {self.lk0 or self.target}: {self.detail}"


@dataclass
class CertificateChanges:
    """The numbers of renewals and revocations in a campaign, by institution."""

    address: dict[str, str]
    partner: dict[str, str]
    receivers: tuple[str, ...] = ()  #: institutions that receive documents of both partners
    revoked: Counter[str] = field(default_factory=Counter)
    renewed: Counter[str] = field(default_factory=Counter)

    def unexplained(self, lines: Iterable[AlarmLine], given_up: Iterable[str] = ()) -> Iterator[AlarmLine]:
        """Yield the lines that nothing explains.

        ``given_up``: LK0s of messages that ended REJECTED with SEMQ-5214 at revoked senders.
        """
        lines, voided = list(lines), set(given_up)
        for line in lines:
            if line.event == Event.VOIDED:
                if line.side != Side.HUB or line.lk0 not in voided:
                    yield line
            elif line.event != Event.VIOLATION or not any(self._explains(name, line, lines) for name in self.address):
                yield line

    def _explains(self, institution: str, line: AlarmLine, lines: list[AlarmLine]) -> bool:
        """Return whether the revocation of an institution explains an alarm at its partner or a receiver."""
        address = self.address[institution]
        if (
            not self.revoked[institution]
            or line.node not in (self.partner[institution], *self.receivers)
            or not line.is_about(address)
        ):
            return False
        if line.code in (SignerGone.code, SignerUnknown.code):
            return True
        about_institution = [alarm for alarm in lines if alarm.node == line.node and alarm.is_about(address)]
        if line.code == CertificateUnvouched.code:
            details = [alarm.detail for alarm in about_institution if alarm.code == line.code]
            return len(details) == len(set(details)) <= self.revoked[institution] + self.renewed[institution]
        return MORE in line.detail and sum(MORE not in alarm.detail for alarm in about_institution) >= LINES_PER_MINUTE

    def codes_of_resealing(self, institution: str) -> set[str]:
        """Return the codes of refusals after which documents of an institution are sent again as new messages."""
        partner = self.partner[institution]
        codes = {SignerGone.code} if self.revoked[institution] else set()
        return codes | ({KeyUnknown.code} if self.revoked[partner] or self.renewed[partner] else set())

    def conditions_of_staying_rows(self, node: str) -> dict[str, str]:
        """Return, by table, the SQL condition of rows that may stay: those of class 2 whose signature was refused."""
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
