"""Operations of the hub on nodes and certificates."""

from typing import Annotated

from msgspec import Meta

from platform_node.directory import InstitutionState
from platform_node.ports import OperatedHub
from platform_node.registry import node_in
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.status import CertificateStatus
from semq.engine.errors import UnknownTarget
from semq.moments import utc_text, utc_text_or_none
from semq.service.credentials.identity import days_left
from semq.service.operations.arguments import WHY_MAX, Arguments, Institution
from semq.service.operations.operation import Caller, act, look
from semq.store.identities import IssuedCertificate

HOURS_MAX = 24 * 30


class MakeToken(Arguments, frozen=True, kw_only=True):
    """The institution that may enrol."""

    node: Institution
    names: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...],
        Meta(max_length=100, description="Host names of the node, for its certificates."),
    ] = ()
    hours: Annotated[
        Annotated[float, Meta(gt=0, le=HOURS_MAX)] | None,
        Meta(description="Validity of the token; by default tls.token_hours."),
    ] = None


class ByInstitution(Arguments, frozen=True, kw_only=True):
    """One institution."""

    node: Institution


class ListCertificates(Arguments, frozen=True, kw_only=True):
    """The selection of certificates."""

    node: Institution | None = None


class RevokeCertificates(Arguments, frozen=True, kw_only=True):
    """The certificates to revoke, and why."""

    which: Annotated[
        str, Meta(min_length=1, max_length=200, description="An institution, or the serial number of a certificate.")
    ]
    why: Annotated[str, Meta(min_length=1, max_length=WHY_MAX, description="Reason, kept with the certificate.")]


class NewToken(OperationAnswer, frozen=True, kw_only=True):
    """A token with which one node may enrol once."""

    node: str
    token: str
    expires_at: str
    fingerprint: str  #: of the hub's authority, which enrolment compares


class TokenState(OperationAnswer, frozen=True, kw_only=True):
    """A token for enrolment, without its text, which is not stored."""

    node: str
    mark: str  #: the first digits of its hash
    made_at: str
    expires_at: str
    used_at: str | None
    serial: str | None  #: of the certificate that it was used for
    state: str  #: open, used, expired


class Rebound(OperationAnswer, frozen=True, kw_only=True):
    """An institution whose next store is accepted."""

    node: str
    was_bound: bool


class IssuedState(OperationAnswer, frozen=True, kw_only=True):
    """A certificate that the hub has issued."""

    node: str
    serial: str
    key_id: str
    state: str  #: valid, expired, revoked
    issued_at: str
    not_after: str
    days_left: float
    revoked_at: str | None
    why: str


class RevokedCertificates(OperationAnswer, frozen=True, kw_only=True):
    """Revoked certificates, and their institutions."""

    revoked: list[str]  #: serial numbers
    nodes: list[str]


class RegistryOperations:
    """The handlers."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node

    async def institutions(self, arguments: Arguments) -> list[InstitutionState]:
        """List the institutions, whether they are online, and the number of documents stored for them."""
        return self._node.institutions()

    async def token(self, arguments: MakeToken, caller: Caller) -> NewToken:
        """Make a token with which one node may enrol once, and return the data that its operator needs."""
        address = node_in(arguments.node)
        if not self._node.is_node(str(address)):
            raise UnknownTarget(target=str(address))
        hours = arguments.hours or self._node.settings.tls.token_hours
        token, ticket = await self._node.registry.new_token(address, arguments.names, hours)
        authority = self._node.registry.authority
        assert authority is not None  # else ``new_token`` has raised NoAuthority
        return NewToken(
            node=str(address),
            token=token,
            expires_at=utc_text(ticket.expires_at),
            fingerprint=authority.fingerprint,
        )

    async def tokens(self, arguments: Arguments) -> list[TokenState]:
        """List the newest tokens: institution, end, and time of use. The text of a token is not stored."""
        now = self._node.clock.wall()
        return [
            TokenState(
                node=ticket.node,
                mark=ticket.hash.hex()[:8],
                made_at=utc_text(ticket.made_at),
                expires_at=utc_text(ticket.expires_at),
                used_at=utc_text_or_none(ticket.used_at),
                serial=ticket.serial,
                state="used" if ticket.used_at else "expired" if ticket.expires_at <= now else "open",
            )
            for ticket in await self._node.registry.tokens()
        ]

    async def rebind(self, arguments: ByInstitution, caller: Caller) -> Rebound:
        """Accept a new store of an institution, after its database was replaced."""
        address = node_in(arguments.node)
        return Rebound(node=str(address), was_bound=await self._node.registry.rebind(str(address)))

    async def issued(self, arguments: ListCertificates) -> list[IssuedState]:
        """List the certificates that the hub has issued, newest first."""
        node = node_in(arguments.node) if arguments.node is not None else None
        return [self._shown(issued) for issued in await self._node.registry.certificates(node)]

    def _shown(self, issued: IssuedCertificate) -> IssuedState:
        now = self._node.clock.wall()
        return IssuedState(
            node=issued.node,
            serial=issued.serial,
            key_id=issued.key_id,
            state="revoked" if issued.revoked_at else "expired" if issued.not_after < now else "valid",
            issued_at=utc_text(issued.issued_at),
            not_after=utc_text(issued.not_after),
            days_left=days_left(issued.not_after, now),
            revoked_at=utc_text_or_none(issued.revoked_at),
            why=issued.why,
        )

    async def revoke(self, arguments: RevokeCertificates, caller: Caller) -> RevokedCertificates:
        """Revoke the certificates of an institution, or one by its serial number, and end their links."""
        revoked = await self._node.registry.revoke(arguments.which, caller.with_user(arguments.why))
        self._node.apply_revocations()
        return RevokedCertificates(
            revoked=[certificate.serial for certificate in revoked],
            nodes=sorted({certificate.node for certificate in revoked}),
        )

    async def show(self, arguments: Arguments) -> CertificateStatus:
        """Show the hub's own certificate."""
        return self._node.identity_in_use().status()

    async def rotate(self, arguments: Arguments, caller: Caller) -> CertificateStatus:
        """Make the hub's certificate in slot next active."""
        identity = self._node.identity_in_use()
        identity.rotate()
        return identity.status()

    async def renew(self, arguments: Arguments, caller: Caller) -> CertificateStatus:
        """Renew the hub's own certificate now."""
        self._node.renew_own()
        return self._node.identity_in_use().status()


REGISTRATION = (
    look("nodes.list", AccessRole.VIEWER, Arguments, RegistryOperations.institutions),
    act("nodes.token", AccessRole.ADMIN, MakeToken, RegistryOperations.token),
    look("nodes.tokens", AccessRole.VIEWER, Arguments, RegistryOperations.tokens, "the console and the HTTP API"),
    act("nodes.rebind", AccessRole.ADMIN, ByInstitution, RegistryOperations.rebind),
    look("cert.list", AccessRole.VIEWER, ListCertificates, RegistryOperations.issued),
    look("cert.show", AccessRole.VIEWER, Arguments, RegistryOperations.show),
    act("cert.revoke", AccessRole.ADMIN, RevokeCertificates, RegistryOperations.revoke),
    act("cert.renew", AccessRole.ADMIN, Arguments, RegistryOperations.renew),
    act("cert.rotate", AccessRole.ADMIN, Arguments, RegistryOperations.rotate),
)
