"""Which institutions the platform serves and who may send to whom: from the configuration (``[nodes]``)."""

from collections.abc import Mapping, Sequence

from platform_node.certificates import KnownCertificates
from semq.config.sections import Account
from semq.engine.errors import TargetNotAllowed, UnknownTarget
from semq.store.rows import Reason
from semq.umx_t.address import Address, NodeType
from semq.umx_t.envelope import Envelope


class ConfiguredDirectory:
    """The directory of a platform whose institutions stand in its configuration file."""

    def __init__(self, accounts: Mapping[str, Account], known: KnownCertificates) -> None:
        self._accounts = accounts
        self._certificates = known
        self._nodes = [Address(NodeType.LOCAL, node_id) for node_id in accounts]
        self._known = frozenset(self._nodes)
        self._names = frozenset(map(str, self._nodes))

    def nodes(self) -> Sequence[Address]:
        """All institutions."""
        return self._nodes

    def knows(self, name: str) -> bool:
        """Whether this is the address of an institution."""
        return name in self._names

    def may_send(self, source: Address, target: Address) -> bool:
        """Whether an agreement allows it; without a list of partners an institution may send to all."""
        account = self._accounts.get(source.id)
        return account is not None and (account.may_send_to is None or target.id in account.may_send_to)

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        """A node says its certificates."""
        return self._certificates.introduce(node, certificates)

    def certificates(self, node: Address) -> tuple[str, ...] | None:
        """The certificates of an institution."""
        return self._certificates.of(node)

    def refuse(self, envelope: Envelope, size: int) -> Reason | None:
        """Why a message can never be delivered, or None."""
        target = envelope.target.node
        if target not in self._known:
            return UnknownTarget.code, f"The platform knows no institution {target}."
        if not self.may_send(envelope.lk0.node, target):
            return TargetNotAllowed.code, f"No agreement allows {envelope.lk0.node} to send to {target}."
        return None
