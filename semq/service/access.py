"""The configured AMQP endpoint of a node: users, their permissions for AMQP, administration and inboxes, and limits."""

from collections.abc import Iterable

from semq.amqp.limits import ConnectionLimits
from semq.broker.definitions import VhostLimits
from semq.broker.limits import BrokerLimits
from semq.broker.users import Permissions, Right, User, digest_of
from semq.config.sections import AmqpSection, GrantSection
from semq.service.admin import ADMIN

APPLICATIONS = "/"  # the virtual host of applications and administrators
INBOX = "semq.inbox"
ANSWER_QUEUE_PREFIX = "amq.gen-"  # of generated names of queues, in which administrators receive answers
ARRIVING_BYTES_MAX = 256 << 20  # bytes of the incomplete messages of one connection
NO_PERMISSIONS = Permissions("", "", "")


def inbox_name(user: str) -> str:
    """Return the name of a user's inbox. The empty name is the institution itself."""
    return f"{INBOX}.{user}" if user else INBOX


class ApplicationPermissions(Permissions, frozen=True):
    """Permissions in the virtual host of applications.

    The exchange ``semq.admin`` needs ``is_admin``, which also allows the queues for its answers. The name of an inbox
    must also be in ``inboxes``, unless that is None.
    """

    is_admin: bool = False
    inboxes: frozenset[str] | None = None

    def allow(self, right: Right, name: str) -> bool:
        if name == ADMIN:
            return self.is_admin and right is Right.WRITE
        if self.is_admin and name.startswith(ANSWER_QUEUE_PREFIX):
            return True
        if self.inboxes is not None and is_inbox(name) and name not in self.inboxes:
            return False
        return Permissions.allow(self, right, name)


def is_inbox(name: str) -> bool:
    """Return whether a queue with this name is an inbox."""
    return name == INBOX or name.startswith(f"{INBOX}.")


def virtual_hosts(amqp: AmqpSection) -> tuple[str, ...]:
    """Return the configured virtual hosts except ``/``, which every node has."""
    return tuple(name for name in amqp.virtual_hosts if name != APPLICATIONS)


def application_users(amqp: AmqpSection) -> list[User]:
    """Return the configured users; if there are none, ``guest`` with all permissions, from this machine only."""
    if not amqp.users:
        everything: dict[str, Permissions] = {APPLICATIONS: ApplicationPermissions(is_admin=True)}
        return [User("guest", digest_of("guest"), everything, loopback_only=True)]
    return [
        User(
            name,
            digest_of(user.password.get_secret_value()),
            _permissions(user.granted.items(), user.is_admin, user.inboxes),
        )
        for name, user in amqp.users.items()
    ]


def _permissions(
    granted: Iterable[tuple[str, GrantSection]], is_admin: bool, inboxes: list[str] | None
) -> dict[str, Permissions]:
    permissions = {name: Permissions(grant.configure, grant.write, grant.read) for name, grant in granted}
    if APPLICATIONS in permissions or is_admin:
        patterns = permissions.get(APPLICATIONS, NO_PERMISSIONS)
        allowed_inboxes = None if inboxes is None else frozenset(map(inbox_name, inboxes))
        permissions[APPLICATIONS] = ApplicationPermissions(
            patterns.configure, patterns.write, patterns.read, is_admin, allowed_inboxes
        )
    return permissions


def connection_limits(amqp: AmqpSection) -> ConnectionLimits:
    """Return the limits of one connection."""
    limit = amqp.max_message_bytes
    return ConnectionLimits(
        heartbeat=amqp.heartbeat_s, body_max=limit, arriving_max=max(ARRIVING_BYTES_MAX, limit),
        channel_max=amqp.max_channels, handshake_s=amqp.handshake_s,
    )  # fmt: skip


def broker_limits(amqp: AmqpSection) -> BrokerLimits:
    """Return the limits of all connections, and of each virtual host."""
    return BrokerLimits(
        unacked_bytes=amqp.max_unacked_bytes,
        transactions_bytes=amqp.memory_bytes // 4,
        memory_high=amqp.memory_bytes,
        memory_low=amqp.memory_bytes - amqp.memory_bytes // 8,
        vhost=VhostLimits(queues_max=amqp.max_queues),
    )
