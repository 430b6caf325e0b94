"""The part of the hub that its operations and its answers to nodes use."""

from typing import Protocol

from platform_node.cluster import Membership
from platform_node.directory import HubDirectory, InstitutionState
from platform_node.questions import Questions
from platform_node.registry import Execute, Registry
from semq.answers.status import Check
from semq.clock import Clock
from semq.config.settings import Settings
from semq.engine.hub_engine import HubEngine
from semq.service.credentials.identity import NodeIdentity
from semq.service.operations.messages import ReadableNode
from semq.store.postgres.store import PostgresStore
from semq.umx_t.address import Address
from semq.umx_t.locator import Store


class OperatedHub(ReadableNode, Protocol):
    """The hub, as seen by its operations."""

    settings: Settings
    clock: Clock
    address: Address
    own_store: Store
    store: PostgresStore
    engine: HubEngine
    registry: Registry
    membership: Membership | None
    control: Execute  #: runs queries and changes on the control database
    directory: HubDirectory
    questions: Questions

    async def checks(self) -> list[Check]:
        """Return the health checks of this instance."""

    def identity_in_use(self) -> NodeIdentity:
        """Return the hub's certificates and authorities. Raises NoAuthority."""

    def institutions(self) -> list[InstitutionState]:
        """Return the institutions: presence, waiting messages, and process of the node, if known."""

    def is_node(self, name: str) -> bool:
        """Whether this is the address of an institution of this hub."""

    def apply_definitions(self, before: set[Address]) -> None:
        """Apply changed institutions and agreements; end the sessions of those that are in ``before`` only."""

    def apply_revocations(self) -> None:
        """End the links of revoked certificates, and inform partners."""

    def renew_own(self) -> None:
        """Issue a new certificate for the hub, or use the one that another instance has issued. Raises NoAuthority."""
