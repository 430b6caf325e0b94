"""Attempts at recording a message whose rows Postgres refuses (PROTOCOL.md section 5.3, R1).

| attempt             | what is recorded                                                                              |
|---------------------|-----------------------------------------------------------------------------------------------|
| 1                   | the message                                                                                   |
| up to PASSING_MAX   | the message again, after a deadlock or a lock that was not free                               |
| the next            | the message as rejected (REJ), without its body, so that its sender learns the reason         |
| the last            | only its position, as rejected: without a row of tb_0030 and a ledger line                    |
"""

from typing import NamedTuple

from semq.foreign_text import shortened
from semq.store.postgres.errors import RowRefused
from semq.store.rows import Reason

PASSING_MAX = 3  # attempts at a message if the cause may pass
ATTEMPTS_MAX = PASSING_MAX + 2


class Attempt(NamedTuple):
    """An attempt at recording a message alone, after Postgres has refused its rows."""

    number: int = 1
    reason: Reason | None = None  #: of the refusal; None: as if nothing had been refused
    has_rows: bool = True  #: False: only the position is recorded, without a row of tb_0030 and a ledger line

    def following(self, error: Exception) -> "Attempt | None":
        """Return the next attempt after a failure; None: the message is not recorded, and its sender asks again."""
        if not isinstance(error, RowRefused) or self.number >= ATTEMPTS_MAX:
            return None
        if error.is_passing and self.number < PASSING_MAX:
            return self._replace(number=self.number + 1)
        reason = self.reason or (
            error.code,
            shortened(f"The receiver's database refused it: {error.facts['fault']}", 300),
        )
        return Attempt(self.number + 1, reason, has_rows=self.reason is None)
