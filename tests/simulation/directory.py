"""The directory of a process of the hub: institutions, groups, certificates; refusals on arrival."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from platform_node.certificate_directory import KnownCertificates
from semq.engine.errors import UnknownTarget
from semq.store.rows import Reason
from semq.umx_t.address import Address
from semq.umx_t.envelope import Envelope
from semq.umx_t.records import Presence
from tests.simulation.application import REFUSED, REFUSED_AT_TIMES
from tests.simulation.documents import groups

if TYPE_CHECKING:
    from tests.simulation.world import World


class SimDirectory:
    """A directory in which all may send to all.

    Refused: documents of certain content types, and all messages to an institution that was struck off.
    """

    def __init__(self, world: "World", certificates: KnownCertificates | None) -> None:
        self._world = world
        self._certificates = certificates

    def partners(self, node: Address) -> Sequence[Address]:
        return [host.address for host in self._world.locals]

    def groups(self, node: Address) -> Sequence[Presence]:
        return groups.records(node, self.partners(node)) if "groups" in self._world.plan.kinds else ()

    def users(self, node: Address) -> Sequence[str]:
        """Return the users whose presence is reported."""
        return groups.USERS if "groups" in self._world.plan.kinds else ()

    def serves(self, node: Address) -> bool:
        return node.id not in self._world.struck_off

    def may_send(self, source: Address, target: Address) -> bool:
        return True

    def terms(self, source: Address, target: Address) -> None:
        """Return None: no agreement restricts the pair."""

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        return None if self._certificates is None else self._certificates.introduce(node, certificates)

    def certificates(self, node: Address) -> tuple[str, ...] | None:
        return None if self._certificates is None else self._certificates.of(node)

    def refuse(self, envelope: Envelope, size: int, waiting: Callable[[str, str], int]) -> Reason | None:
        if not self.serves(envelope.target.node):
            self._world.oracle.messages[envelope.lk0].barred = True
            return UnknownTarget.code, "no such institution"
        refused = envelope.attributes.content_type
        if refused == REFUSED or (refused == REFUSED_AT_TIMES and self._world.faults.refuses()):
            return "SEMQ-1203", "too large"
        return None
