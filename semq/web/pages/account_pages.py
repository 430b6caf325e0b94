"""Pages of users: the visitor's own password; for administrators all users, their roles and passwords."""

import re
from collections.abc import Sequence

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.store import accounts
from semq.store.accounts import Account
from semq.web.access import passwords, secret
from semq.web.errors import BadRequest
from semq.web.pages.visit import Visit

NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
ACTS = ("roles", "password", "disable", "enable")


async def account(visit: Visit) -> Response:
    """Show the visitor's own user."""
    own = await visit.read(accounts.account, visit.visitor.name)
    return visit.render("account.html", account=own, length_min=passwords.LENGTH_MIN)


async def change_own_password(visit: Visit) -> Response:
    """Change the visitor's own password, and end the visitor's other sessions."""
    fields = await visit.form()
    own = await visit.read(accounts.account, visit.visitor.name)
    visit.web.attempts.begin(visit.visitor.peer, visit.visitor.name)
    if own is None or not await passwords.is_right(str(fields.get("old", "")), own.password):
        await visit.note("user.password", {"name": visit.visitor.name}, outcome="refused")
        raise BadRequest("The present password is wrong, or this user has none that can be changed here.")
    visit.web.attempts.succeeded(visit.visitor.peer, visit.visitor.name)
    hash_ = await passwords.new_hash(str(fields.get("new", "")))
    await visit.note("user.password", {"name": visit.visitor.name})
    await visit.web.database.write(accounts.set_password, visit.visitor.name, hash_, secret.hash_of(visit.secret))
    visit.web.sessions.forget()
    return visit.see_other("/account", "The password was changed; other sessions have ended.")


async def users(visit: Visit) -> Response:
    """Show all users."""
    return visit.render(
        "users.html",
        accounts=await visit.read(accounts.accounts),
        roles=list(AccessRole),
        length_min=passwords.LENGTH_MIN,
    )


async def add(visit: Visit) -> Response:
    """Add a user."""
    fields = await visit.form()
    name, roles = str(fields.get("name", "")), _roles(fields.getlist("roles"))
    if not NAME.fullmatch(name):
        raise BadRequest("A user's name has 1 to 64 letters, digits or . _ @ -")
    visit.visitor.check_grant(roles)
    hash_ = await passwords.new_hash(str(fields.get("password", "")))
    asked = await visit.note("user.add", {"name": name, "roles": roles}, outcome="asked")
    new = Account(name, hash_, tuple(roles), visit.web.clock.wall(), visit.visitor.name)
    if not await visit.web.database.write(accounts.add_account, new):
        await visit.note("user.add", {"name": name}, outcome="refused", detail="exists", asked=asked)
        raise BadRequest("There is a user of this name.", name=name)
    await visit.note("user.add", {"name": name}, asked=asked)
    return visit.see_other("/users", f"The user {name} was added.")


async def change(visit: Visit) -> Response:
    """Change roles or password of a user, or disable or enable the user."""
    fields = await visit.form()
    name, act = str(fields.get("name", "")), str(fields.get("act", ""))
    if act not in ACTS:
        raise BadRequest(f"There is no such act on a user; the acts are {', '.join(ACTS)}.")
    if name == visit.visitor.name and act in ("roles", "disable"):
        raise BadRequest("You cannot change your own rights; another administrator has to do it.")
    write, now = visit.web.database.write, visit.web.clock.wall()
    roles = _roles(fields.getlist("roles")) if act == "roles" else []
    user = await visit.read(accounts.account, name)
    if act == "roles":
        visit.visitor.check_grant(roles)
    elif act in ("password", "enable") and user is not None:
        # A new password lets the administrator sign in as this user; enabling gives the roles again.
        visit.visitor.check_grant(user.roles)
    hash_ = await passwords.new_hash(str(fields.get("password", ""))) if act == "password" else ""
    asked = await visit.note(f"user.{act}", {"name": name, "roles": roles or None}, outcome="asked")
    match act:
        case "roles":
            is_done = await write(accounts.set_roles, name, roles)
        case "password":
            is_done = await write(accounts.set_password, name, hash_, None)
        case _:
            is_done = await write(accounts.disable, name, now if act == "disable" else None)
    visit.web.sessions.forget()
    await visit.note(f"user.{act}", {"name": name}, outcome="done" if is_done else "refused", asked=asked)
    if not is_done:
        raise BadRequest("There is no such user, or its password is in the configuration of the node.", name=name)
    return visit.see_other("/users", f"The user {name} was changed.")


def _roles(fields: Sequence[object]) -> list[str]:
    all_roles = {role.value for role in AccessRole}
    roles = [str(field) for field in fields]
    if not roles or not all_roles.issuperset(roles):
        raise BadRequest(
            "A user has at least one role, and only roles of this list.", roles=" ".join(sorted(all_roles))
        )
    return roles
