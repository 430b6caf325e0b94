"""Pages of users: the visitor's own password; for administrators all users, their roles and passwords."""

from collections.abc import Sequence

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.service.credentials import passwords
from semq.store import accounts
from semq.web.access import secret
from semq.web.errors import BadRequest
from semq.web.pages.visit import Visit

ACTS = ("roles", "password", "disable", "enable")


async def account(visit: Visit) -> Response:
    """Show the visitor's own user."""
    own = await visit.read(accounts.account, visit.visitor.name)
    return visit.render("account.html", account=own, length_min=passwords.LENGTH_MIN)


async def change_own_password(visit: Visit) -> Response:
    """Change the visitor's own password, and end the visitor's other sessions."""
    _, fields = visit.translator(), await visit.form()
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
    return visit.see_other("/account", _("The password was changed; other sessions have ended."))


async def users(visit: Visit) -> Response:
    """Show all users."""
    return visit.render(
        "users.html",
        accounts=await visit.read(accounts.accounts),
        roles=[role.value for role in AccessRole],
        length_min=passwords.LENGTH_MIN,
    )


async def add(visit: Visit) -> Response:
    """Add a user."""
    _, fields = visit.translator(), await visit.form()
    name, roles = str(fields.get("name", "")), _roles(fields.getlist("roles"))
    visit.visitor.check_grant(roles)
    await visit.ask("user.add", name=name, roles=roles, password=str(fields.get("password", "")))
    return visit.see_other("/users", _("The user %(name)s was added.") % {"name": name})


async def change(visit: Visit) -> Response:
    """Change roles or password of a user, or disable or enable the user."""
    _, fields = visit.translator(), await visit.form()
    name, act = str(fields.get("name", "")), str(fields.get("act", ""))
    if act not in ACTS:
        raise BadRequest("There is no such act on a user.", acts=" ".join(ACTS))
    if name == visit.visitor.name and act in ("roles", "disable"):
        raise BadRequest("You cannot change your own rights; another administrator has to do it.")
    more: dict[str, object] = {}
    if act == "roles":
        more["roles"] = roles = _roles(fields.getlist("roles"))
        visit.visitor.check_grant(roles)
    elif act in ("password", "enable"):
        # A new password lets the administrator sign in as this user; enabling gives the roles again.
        user = await visit.read(accounts.account, name)
        visit.visitor.check_grant(user.roles if user is not None else ())
        more |= {"password": str(fields.get("password", ""))} if act == "password" else {}
    await visit.ask(f"user.{act}", name=name, **more)
    visit.web.sessions.forget()
    return visit.see_other("/users", _("The user %(name)s was changed.") % {"name": name})


def _roles(fields: Sequence[object]) -> list[str]:
    all_roles = {role.value for role in AccessRole}
    roles = [str(field) for field in fields]
    if not roles or not all_roles.issuperset(roles):
        raise BadRequest(
            "A user has at least one role, and only roles of this list.", roles=" ".join(sorted(all_roles))
        )
    return roles
