"""Operations ``user.*``: persons who may sign in and act, with their roles; and the roles of a person at the command
line.

`semq user` and the page of users run them. A request that names a person (``semq.service.admin``) is that person's: it
needs the role that the operation needs, and the audit log names the person alone. A name without a user here is only
noted, beside the user of the node.
"""

import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.clock import draw_secret
from semq.moments import utc_text, utc_text_or_none
from semq.service.credentials.passwords import LENGTH_MAX, LENGTH_MIN, new_hash
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Caller, Operation, act, look
from semq.service.operations.ports import OperatedNode
from semq.store import accounts
from semq.store.accounts import Account
from semq.store.postgres.store import PostgresStore

NAME = r"^[A-Za-z0-9._@-]{1,64}$"
NAME_MAX = 64
SECRET_BYTES = 18  # of a password that the node draws
if TYPE_CHECKING:
    RoleName = str
else:
    RoleName = Literal[tuple(str(role) for role in AccessRole)]
Roles = Annotated[
    tuple[RoleName, ...],
    Meta(min_length=1, max_length=len(AccessRole), description="Roles: viewer, operator, admin, payload."),
]
Password = Annotated[
    str, Meta(min_length=LENGTH_MIN, max_length=LENGTH_MAX, description="Password; default: the node draws one.")
]


class NamedUser(Arguments, frozen=True, kw_only=True):
    """A person."""

    name: Annotated[str, Meta(pattern=NAME, max_length=NAME_MAX, description="Name of the person.")]


class AddUser(NamedUser, frozen=True, kw_only=True):
    """A new person."""

    roles: Roles
    password: Password | None = None


class ChangeRoles(NamedUser, frozen=True, kw_only=True):
    """A person, and the roles instead of the present ones."""

    roles: Roles


class ChangePassword(NamedUser, frozen=True, kw_only=True):
    """A person, and the password instead of the present one."""

    password: Password | None = None


class UserFacts(OperationAnswer, frozen=True, kw_only=True):
    """A person, without the password."""

    name: str
    roles: tuple[str, ...]
    made_at: str
    made_by: str
    disabled_at: str | None
    has_password: bool  #: false: the configuration of the node has it
    password: str | UnsetType = UNSET  #: only in the answer that made it


class PersonOperations:
    """The handlers of ``user.*``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def list_all(self, arguments: Arguments) -> list[UserFacts]:
        """List the persons who may sign in."""
        return [_described(account) for account in await self._node.store.execute(accounts.accounts)]

    async def add(self, arguments: AddUser, caller: Caller) -> UserFacts:
        """Add a person."""
        drawn = arguments.password or _drawn()
        now = self._node.clock.wall()
        new = Account(arguments.name, await new_hash(drawn), tuple(arguments.roles), now, caller.user)
        if not await self._node.store.execute(accounts.add_account, new):
            raise BadArguments("There is a user of this name.", name=arguments.name)
        return _described(new, UNSET if arguments.password else drawn)

    async def roles(self, arguments: ChangeRoles, caller: Caller) -> UserFacts:
        """Give a person these roles instead of the present ones."""
        _refuse_own(arguments, caller)
        return await self._changed(
            arguments.name, await self._node.store.execute(accounts.set_roles, arguments.name, arguments.roles)
        )

    async def password(self, arguments: ChangePassword, caller: Caller) -> UserFacts:
        """Give a person another password, and end the person's sessions."""
        drawn = arguments.password or _drawn()
        is_done = await self._node.store.execute(accounts.set_password, arguments.name, await new_hash(drawn), None)
        return await self._changed(arguments.name, is_done, UNSET if arguments.password else drawn)

    async def disable(self, arguments: NamedUser, caller: Caller) -> UserFacts:
        """Disable a person, and end the person's sessions."""
        _refuse_own(arguments, caller)
        now = self._node.clock.wall()
        return await self._changed(
            arguments.name, await self._node.store.execute(accounts.disable, arguments.name, now)
        )

    async def enable(self, arguments: NamedUser, caller: Caller) -> UserFacts:
        """Enable a disabled person."""
        return await self._changed(
            arguments.name, await self._node.store.execute(accounts.disable, arguments.name, None)
        )

    async def _changed(self, name: str, is_done: bool, password: str | UnsetType = UNSET) -> UserFacts:
        account = await self._node.store.execute(accounts.account, name) if is_done else None
        if account is None:
            text = "There is no such user, or its password is in the configuration of the node."
            raise BadArguments(text, name=name).with_remedy("`semq user list` lists the users.")
        return _described(account, password)


PEOPLE: tuple[Operation, ...] = (
    look("user.list", AccessRole.ADMIN, Arguments, PersonOperations.list_all),
    act("user.add", AccessRole.ADMIN, AddUser, PersonOperations.add),
    act("user.roles", AccessRole.ADMIN, ChangeRoles, PersonOperations.roles),
    act("user.password", AccessRole.ADMIN, ChangePassword, PersonOperations.password),
    act("user.disable", AccessRole.ADMIN, NamedUser, PersonOperations.disable),
    act("user.enable", AccessRole.ADMIN, NamedUser, PersonOperations.enable),
)


async def person(store: PostgresStore, name: str) -> Account | None:
    """Return the user with the name of a person at the command line; None: the name is only noted."""
    return await store.execute(accounts.account, name) if re.fullmatch(NAME, name) else None


def _refuse_own(arguments: NamedUser, caller: Caller) -> None:
    if arguments.name == caller.user:
        raise BadArguments("You cannot change your own rights; another administrator has to do it.")


def _drawn() -> str:
    return urlsafe_b64encode(draw_secret(SECRET_BYTES)).decode()


def _described(account: Account, password: str | UnsetType = UNSET) -> UserFacts:
    return UserFacts(
        name=account.name, roles=account.roles, made_at=utc_text(account.made_at), made_by=account.made_by,
        disabled_at=utc_text_or_none(account.disabled_at), has_password=account.password is not None,
        password=password,
    )  # fmt: skip
