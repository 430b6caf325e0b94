"""Renewal of a local node's certificate at two thirds of its lifetime.

The new certificate is tested, then used on a new link. A failed renewal is repeated after a growing pause.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from local_node.enrolment import HubAddress, renew
from semq.clock import Clock
from semq.errors import SemqError
from semq.service.credentials.identity import NodeIdentity
from semq.umx_t import retry

CHECK_S = 5.0
RETRY_S_MIN, RETRY_S_MAX = 10.0, 3600.0
log = structlog.get_logger("semq.renewing")


class Renewing:
    """The renewal of the certificate of one identity by the hub."""

    def __init__(
        self,
        identity: NodeIdentity,
        hub: Callable[[], HubAddress],
        clock: Clock,
        renewed: Callable[[], Awaitable[None]],
    ) -> None:
        """``hub`` returns the address in use; ``renewed`` is called when a new certificate is in use."""
        self._identity = identity
        self._hub = hub
        self._clock = clock
        self._renewed = renewed
        self._failures = 0
        self._not_before = 0.0  #: monotonic time until which a failed renewal is not repeated
        self._busy = asyncio.Lock()

    async def renew_if_due(self) -> None:
        if self._identity.is_renewal_due() and not self._busy.locked() and self._clock.monotonic() >= self._not_before:
            try:
                await self.renew_now()
            except (SemqError, OSError) as error:
                self._failures += 1
                pause_s = retry.backoff(self._failures, RETRY_S_MIN, RETRY_S_MAX, self._clock.random())
                self._not_before = self._clock.monotonic() + pause_s
                log.warning("not_renewed", error=str(error), state=self._identity.state, again_in_s=round(pause_s))
        self._identity.maintain()

    async def renew_now(self) -> None:
        """Renew now. Raises the hub's refusal or the error of the connection."""
        async with self._busy:
            await renew(self._identity.ring, self._hub(), self._identity.trust, self._clock)
            self._identity.rotate()
            self._failures = 0
            await self._renewed()
