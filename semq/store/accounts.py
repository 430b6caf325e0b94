"""Users, sessions, one-time links and tokens of the web process, as rows.

Functions on a connection; each change is a transaction of its own. Secrets arrive as hashes.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct
from sqlalchemy import Connection, Table, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import Insert, insert

from semq.store.tables import TableRow
from semq.store.web_tables import web_account, web_link, web_session, web_token

ACCOUNT, SESSION, LINK, TOKEN = web_account.c, web_session.c, web_link.c, web_token.c
FIRST_LINK_LOCK = 0x5E30_0001  # advisory lock


class Account(Struct, frozen=True):
    """A person who may sign in."""

    name: str
    password: str | None  #: hash with its parameters; None: the node checks the password
    roles: tuple[str, ...]
    made_at: datetime
    made_by: str
    disabled_at: datetime | None = None


class AccountSession(Struct, frozen=True):
    """A signed-in browser, identified by the hash of its cookie."""

    hash: bytes
    account: str
    roles: tuple[str, ...]
    made_at: datetime
    seen_at: datetime
    ends_at: datetime
    peer: str = ""


class Token(Struct, frozen=True):
    """A bearer token of a program, found by its hash."""

    id: str  #: the name by which operators revoke it
    hash: bytes
    name: str  #: purpose, as its maker wrote it
    scopes: tuple[str, ...]
    made_at: datetime
    made_by: str
    inbox: str | None = None  #: the user whose inbox it may read; None: any
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


# --- accounts


def accounts(connection: Connection) -> list[Account]:
    """Return all accounts, sorted by name."""
    return [_account(row) for row in connection.execute(select(web_account).order_by(ACCOUNT.name))]


def account(connection: Connection, name: str) -> Account | None:
    """Return an account, also a disabled one, or None."""
    row = connection.execute(select(web_account).where(ACCOUNT.name == name)).one_or_none()
    return None if row is None else _account(row)


def has_enabled_account(connection: Connection) -> bool:
    """Return whether any account is enabled."""
    return connection.execute(select(ACCOUNT.name).where(ACCOUNT.disabled_at.is_(None)).limit(1)).first() is not None


def add_account(connection: Connection, new: Account) -> bool:
    """Add an account. Return False if the name is in use."""
    with connection.begin():
        added = connection.execute(_insert(web_account, new).on_conflict_do_nothing().returning(ACCOUNT.name))
        return added.one_or_none() is not None


def set_password(connection: Connection, name: str, password: str, keep: bytes | None) -> bool:
    """Replace a password and end the account's sessions, except the session with the hash ``keep``.

    Return False if there is no such account, or if the node checks its password.
    """
    with connection.begin():
        changed = connection.execute(
            update(web_account)
            .where(ACCOUNT.name == name, ACCOUNT.password.is_not(None))
            .values(password=password)
            .returning(ACCOUNT.name)
        )
        if changed.one_or_none() is None:
            return False
        _end_sessions(connection, name, keep)
    return True


def set_roles(connection: Connection, name: str, roles: Sequence[str]) -> bool:
    """Replace the roles of an account and of its sessions without roles of their own.

    Return False if there is no such account.
    """
    with connection.begin():
        statement = update(web_account).where(ACCOUNT.name == name).values(roles=list(roles))
        return connection.execute(statement.returning(ACCOUNT.name)).one_or_none() is not None


def disable(connection: Connection, name: str, at: datetime | None) -> bool:
    """Disable an account and end its sessions; ``at`` None: enable it. Return False if there is no such account."""
    with connection.begin():
        statement = update(web_account).where(ACCOUNT.name == name).values(disabled_at=at)
        changed = connection.execute(statement.returning(ACCOUNT.name)).one_or_none() is not None
        if at is not None:
            _end_sessions(connection, name, None)
        return changed


def _end_sessions(connection: Connection, name: str, keep: bytes | None) -> None:
    statement = delete(web_session).where(SESSION.account == name)
    connection.execute(statement if keep is None else statement.where(SESSION.hash != keep))


# --- sessions and links


def add_session(connection: Connection, new: AccountSession, roles: Sequence[str] | None) -> None:
    """Store a session, and delete sessions that have ended. ``roles`` None: the session has its account's roles."""
    with connection.begin():
        connection.execute(delete(web_session).where(SESSION.ends_at < new.made_at))
        connection.execute(_insert(web_session, new, roles=None if roles is None else list(roles)))


def session(
    connection: Connection, hash_: bytes, now: datetime, idle_since: datetime, node_admins: Collection[str]
) -> AccountSession | None:
    """Return a session with its own roles or, if it has none, with the present roles of its account.

    None: the session is unknown, has ended, or was not used after ``idle_since``; its account is disabled; or it has
    neither roles nor an account with a password or the name of an administrator of the node.
    """
    row = connection.execute(
        select(web_session, func.coalesce(SESSION.roles, ACCOUNT.roles).label("effective"))
        .outerjoin(web_account, ACCOUNT.name == SESSION.account)
        .where(SESSION.hash == hash_, SESSION.ends_at > now, SESSION.seen_at > idle_since)
        .where(or_(SESSION.roles.is_not(None), ACCOUNT.password.is_not(None), ACCOUNT.name.in_(node_admins)))
        .where(ACCOUNT.disabled_at.is_(None))
    ).one_or_none()
    if row is None:
        return None
    return AccountSession(row.hash, row.account, tuple(row.effective), row.made_at, row.seen_at, row.ends_at, row.peer)


def note_session_use(connection: Connection, hash_: bytes, now: datetime) -> None:
    """Note the use of a session."""
    with connection.begin():
        connection.execute(update(web_session).where(SESSION.hash == hash_).values(seen_at=now))


def end_session(connection: Connection, hash_: bytes) -> None:
    """Delete a session."""
    with connection.begin():
        connection.execute(delete(web_session).where(SESSION.hash == hash_))


def end_former_sessions(connection: Connection, node_admins: Collection[str]) -> None:
    """Delete sessions of accounts whose password the node checks, unless they administer the node."""
    with connection.begin():
        former = select(ACCOUNT.name).where(ACCOUNT.password.is_(None), ACCOUNT.name.not_in(node_admins))
        connection.execute(delete(web_session).where(SESSION.roles.is_(None), SESSION.account.in_(former)))


def store_first_link(
    connection: Connection, hash_: bytes, now: datetime, expires_at: datetime, *, always: bool
) -> bool:
    """Replace all one-time links by a new one; return True.

    If an account is enabled and ``always`` is false, change nothing and return False.
    """
    with connection.begin():
        connection.execute(select(func.pg_advisory_xact_lock(FIRST_LINK_LOCK)))
        if has_enabled_account(connection) and not always:
            return False
        connection.execute(delete(web_link))
        connection.execute(insert(web_link).values(hash=hash_, made_at=now, expires_at=expires_at))
        return True


def use_link(connection: Connection, hash_: bytes, now: datetime) -> bool:
    """Use up a one-time link. Return False if it is unknown, expired or used."""
    with connection.begin():
        used = connection.execute(
            update(web_link)
            .where(LINK.hash == hash_, LINK.used_at.is_(None), LINK.expires_at > now)
            .values(used_at=now)
            .returning(LINK.hash)
        )
        return used.one_or_none() is not None


# --- tokens


def add_token(connection: Connection, new: Token) -> None:
    """Store a token."""
    with connection.begin():
        connection.execute(_insert(web_token, new, scopes=list(new.scopes)))


def token(connection: Connection, hash_: bytes) -> Token | None:
    """Return the token with this hash, also a revoked or expired one, or None."""
    row = connection.execute(select(web_token).where(TOKEN.hash == hash_)).one_or_none()
    return None if row is None else _token(row)


def tokens(connection: Connection, limit: int) -> list[Token]:
    """Return the newest tokens, also revoked and expired ones, the newest first."""
    query = select(web_token).order_by(TOKEN.made_at.desc(), TOKEN.id).limit(limit)
    return [_token(row) for row in connection.execute(query)]


def revoke_token(connection: Connection, id_: str, by: str, at: datetime) -> Token | None:
    """Revoke a token permanently, and return it. None: no token has this id."""
    with connection.begin():
        connection.execute(
            update(web_token).where(TOKEN.id == id_, TOKEN.revoked_at.is_(None)).values(revoked_at=at, revoked_by=by)
        )
        row = connection.execute(select(web_token).where(TOKEN.id == id_)).one_or_none()
        return None if row is None else _token(row)


def _insert(table: Table, row: Account | AccountSession | Token, **instead: object) -> Insert:
    values = {name: getattr(row, name) for name in row.__struct_fields__}
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    return insert(table).values(**values | lists | instead)


def _account(row: TableRow) -> Account:
    values = dict(row._mapping)
    return Account(**values | {"roles": tuple(values["roles"])})


def _token(row: TableRow) -> Token:
    values = dict(row._mapping)
    return Token(**values | {"scopes": tuple(values["scopes"])})
