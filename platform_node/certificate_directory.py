"""The hub's directory of the institutions' certificates.

A node sends its certificates at each login; the hub stores them and passes them on to all partners, which check them. A
hub with authorities accepts only unrevoked certificates signed by them; a hub without authorities accepts all.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from semq.errors import BadInput, SemqError
from semq.pki.errors import OutOfDate, Revoked, WrongAuthority
from semq.umx_t.address import Address, parse_address

CERTIFICATES_MAX = 16  # per node; more than slots and renewals need
log = structlog.get_logger("semq.directory")
Check = Callable[[Address, str], datetime]
NEVER = datetime.max.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)  # certificates end at whole seconds


class TooManyCertificates(BadInput):
    """A node sent more certificates than one node can have."""

    code = "SEMQ-1252"
    remedy = "Remove old key slots at the node; what was sealed for a removed key can then no longer be opened."


class KnownCertificates:
    """The certificates of each node, in PEM, in the order in which the node sent them: the active one first."""

    def __init__(self, stored: Mapping[str, Sequence[str]], check: Check = lambda node, pem: NEVER) -> None:
        """``check`` returns the time until which a certificate may be passed on, or raises SemqError."""
        self._known = {node: tuple(pems) for node, pems in stored.items()}
        self._check = check
        self._ends = NEVER  # the earliest end of a known certificate
        self.check_all()

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        """Replace a node's certificates by the valid ones among ``certificates``; return them, or None if nothing
        changed.

        Raises TooManyCertificates, WrongAuthority for the active certificate, and errors of ``check`` other than
        Revoked and OutOfDate.
        """
        if len(certificates) > CERTIFICATES_MAX:
            raise TooManyCertificates(node=str(node), count=len(certificates))
        valid = tuple(pem for slot, pem in enumerate(certificates) if self._is_valid(node, pem, is_active=slot == 0))
        if self._known.get(str(node)) == valid:
            return None
        self._known[str(node)] = valid
        return valid

    def _is_valid(self, node: Address, pem: str, *, is_active: bool) -> bool:
        try:
            self._note_end(node, pem)
        except (Revoked, OutOfDate, WrongAuthority) as error:
            if is_active and isinstance(error, WrongAuthority):
                raise
            # A node that has enrolled again, or at another hub, still has its old certificate in slot previous.
            log.info("certificate_not_passed_on", node=str(node), error=str(error))
            return False
        return True

    def _note_end(self, node: Address, pem: str) -> None:
        self._ends = min(self._ends, self._check(node, pem))

    def of(self, node: Address) -> tuple[str, ...] | None:
        """Return the certificates of a node; None if the node has never sent any."""
        return self._known.get(str(node))

    def is_due(self, now: datetime) -> bool:
        """Return whether a certificate has expired since the last check of all."""
        return now - SECOND > self._ends

    def check_all(self) -> dict[str, tuple[str, ...]]:
        """Drop the certificates that fail the check; return the remaining ones of each node that lost one."""
        changed = {}
        self._ends = NEVER
        for node, pems in self._known.items():
            valid = tuple(pem for pem in pems if self._passes(node, pem))
            if valid != pems:
                changed[node] = valid
        self._known |= changed
        return changed

    def _passes(self, node: str, pem: str) -> bool:
        try:
            self._note_end(parse_address(node), pem)
        except SemqError:
            return False
        return True
