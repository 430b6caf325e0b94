"""The parts of the hub, and the hub as its operations and its answers to nodes see it."""

from typing import Protocol

from msgspec import Struct

from platform_node.cluster import Membership
from platform_node.directory import HubDirectory, InstitutionState
from platform_node.questions import Questions
from platform_node.registry import Registry
from platform_node.session_guard import Guard
from semq.engine.hub_engine import HubEngine
from semq.service.datagrams.ends import OfferingEnd
from semq.service.links.sessions import Links
from semq.service.operations.ports import OperatedNode
from semq.store.reader import Execute
from semq.umx_t.address import Address
from semq.umx_t.locator import Store


class HubParts(Struct, frozen=True):
    """The parts of the hub that survive its engine."""

    datagrams: OfferingEnd | None  #: None without [datagrams]
    links: Links
    questions: Questions
    guard: Guard


class OperatedHub(OperatedNode, Protocol):
    """The hub, as seen by its operations and by its other parts."""

    own_store: Store
    registry: Registry
    membership: Membership | None  #: None without [cluster]
    control: Execute  #: runs queries and changes on the control database
    directory: HubDirectory
    parts: HubParts

    @property
    def engine(self) -> HubEngine:
        """The present engine."""

    def institutions(self) -> list[InstitutionState]:
        """Return the institutions: presence, waiting messages, and process of the node, if known."""

    def is_node(self, name: str) -> bool:
        """Whether this is the address of an institution of this hub."""

    def apply_definitions(self, before: set[Address]) -> None:
        """Apply changed institutions and agreements; end the sessions of those that are in ``before`` only."""

    def announce_authority(self) -> None:
        """Tell enrolling nodes which authority signs."""

    @property
    def store_name(self) -> str:
        """The name of the store of this instance."""

    async def served_stores(self) -> list[str]:
        """Return the stores of all running instances."""

    def apply_revocations(self) -> None:
        """End the links of revoked certificates, and inform partners."""

    def renew_own(self) -> None:
        """Issue a new certificate for the hub, or use the one that another instance has issued. Raises NoAuthority."""
