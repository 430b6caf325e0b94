"""The node's side of a change of the hub's authority.

| the hub asks | the node                                                              |
|--------------|-----------------------------------------------------------------------|
| believe      | adds the new authority to those that it trusts                        |
| renew        | also renews its certificate, unless the new authority has signed it   |
| withdraw     | also removes the former authority, after this renewal                 |

An answer states which of the two authorities the node trusts at that moment; the hub repeats its request until the
answer is as required. A node accepts a new authority only with the signature of the former one.
"""

import asyncio
from typing import Any, Literal

import msgspec
import structlog

from local_node.ports import OperatedLocalNode
from local_node.renewal import Renewing
from semq.errors import SemqError, unusable_path_of
from semq.pki.succession import Succession, is_issued_by, verify_succession
from semq.service.credentials.identity import NodeIdentity

log = structlog.get_logger("semq.succession")


class SuccessionQuestion(msgspec.Struct):
    """A request of the hub."""

    step: Literal["believe", "renew", "withdraw"]
    succession: Succession


class SuccessionDuty:
    """Carries out the requests of the hub."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node
        self._renewal: asyncio.Task[None] | None = None
        self._fault = ""

    async def carry_out(self, question: SuccessionQuestion) -> dict[str, object]:
        """Carry out the request, and return which authorities are trusted now. A renewal is begun, and not awaited.

        Raises WrongAuthority, NoIdentity, TrustUnreadable, TrustNeeded.
        """
        identity, succession = self._node.identity_in_use(), question.succession
        new = succession.new
        fingerprint, former = succession.fingerprint, succession.former
        if fingerprint not in identity.trust.fingerprints:
            self._trust(identity, [*identity.trust.authorities, verify_succession(succession, identity.trust)])
        is_renewed = is_issued_by(identity.certificate, new)
        if question.step != "believe" and not is_renewed:
            self._renew()
        if question.step == "withdraw" and is_renewed and former in identity.trust.fingerprints:
            verify_succession(succession, identity.trust)
            authorities = zip(identity.trust.fingerprints, identity.trust.authorities, strict=True)
            self._trust(identity, [authority for name, authority in authorities if name != former])
        trusted = identity.trust.fingerprints
        return {"trusts_new": fingerprint in trusted, "trusts_former": former in trusted, "fault": self._fault}

    def _trust(self, identity: NodeIdentity, authorities: list[Any]) -> None:
        try:
            identity.replace_authorities(authorities)
        except OSError as error:
            raise unusable_path_of(error) or error from error
        self._node.apply_authorities()

    def _renew(self) -> None:
        """Renew in a task: a renewal takes longer than the hub waits for an answer, and ends the link."""
        if self._node.parts.renewing is not None and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.get_running_loop().create_task(self._carry_out_renewal(self._node.parts.renewing))

    async def _carry_out_renewal(self, renewing: Renewing) -> None:
        try:
            await renewing.renew_now()
        except (SemqError, OSError) as error:
            self._fault = str(error)
            log.warning("not_renewed", error=str(error))
        else:
            self._fault = ""
