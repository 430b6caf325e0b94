"""The URL of a node for programs on the same machine, derived from its configuration.

`admin_address_in` serves commands that only send a request to a running node. It reads only the keys of the address,
without importing pydantic. If one of these keys is not valid, it calls ``load``, which reports all faults.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from semq.config.defaults import HOST, NESTED, NODE_TYPES, PORT, PREFIX

if TYPE_CHECKING:
    from semq.config.settings import Settings

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # address that a node listens on | address to connect to
GUEST = "guest"  # user and password if no user is configured
SECTIONS = ("node", "amqp", "tls")  # sections that `admin_address_in` reads


class AdminAddress(NamedTuple):
    """The address of a node, and the login of one of its administrators."""

    host: str
    port: int
    user: str
    password: str
    authorities: str  #: PEM file; empty without TLS
    virtual_host: str = ""  #: institution at a port that several institutions share; empty: "/"
    name: str = ""  #: name that the node announces; empty at such a port, where the virtual host selects the node

    def url(self, port: int | None = None) -> str:
        """Return ``amqp://user:password@host:port``, or ``amqps://…?cafile=…``.

        ``port``: the port of the running node, if the configuration has port 0 (any free port).
        """
        host = WILDCARDS.get(self.host, self.host)
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@{host}:{port or self.port}"
        place = f"{login}/{quote(self.virtual_host, safe='')}" if self.virtual_host else login
        return f"amqps://{place}?cafile={quote(self.authorities)}" if self.authorities else f"amqp://{place}"


def url_of(settings: "Settings", port: int | None = None) -> str:
    """Return `AdminAddress.url` of a node."""
    return admin_address_of(settings).url(port)


def admin_address_of(settings: "Settings") -> AdminAddress:
    """Return the address of a node with the login of its first administrator, or else of its first user, or GUEST."""
    users = settings.amqp.users
    user = next((name for name, section in users.items() if section.is_admin), next(iter(users), GUEST))
    password = users[user].password.get_secret_value() if users else GUEST
    authorities = str(settings.tls.trust or settings.pki_dir / "trust.pem") if settings.amqp.tls else ""
    if settings.port_certificate is not None:
        authorities = str(settings.port_certificate)
    virtual_host = settings.institution or ""
    name = "" if virtual_host else str(settings.address)
    return AdminAddress(settings.amqp.host, settings.amqp.port, user, password, authorities, virtual_host, name)


def admin_address_in(path: Path, env: Mapping[str, str], institution: str | None = None) -> AdminAddress:
    """Return the result of `admin_address_of` for a configuration file and an environment.

    ``institution``: as for ``load``. None for a file with several institutions: the address of the virtual server.
    Raises ConfigUnreadable, ConfigInvalid.
    """
    if institution is not None:
        from semq.config.file import load

        return admin_address_of(load(path, env, institution))
    try:
        return _admin_address(path, tomllib.loads(path.read_text("utf-8")), _passwords(env))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        from semq.config.file import load

        return admin_address_of(load(path, env))


def _admin_address(path: Path, tables: Mapping[str, Any], passwords: Mapping[str, str]) -> AdminAddress:
    """Return the address from the tables of a file. Raises a built-in exception if a value is not valid."""
    amqp, tls = tables.get("amqp", {}), tables.get("tls", {})
    users = _users(amqp, passwords)
    name = _name(tables)
    if "server" in tables:
        server = tables["server"]
        users = _users(server, {})  # variables do not set passwords of the server's users
        amqp = {**amqp, "tls": bool(server.get("certificate"))}
        tls = {"trust": server["certificate"]} if server.get("certificate") else tls
    user = next((name for name, table in users.items() if _is_admin(table)), next(iter(users), GUEST))
    host, port, serves_tls = amqp.get("host", HOST), amqp.get("port", PORT), amqp.get("tls", False)
    password = users[user]["password"] if users else GUEST
    if [type(value) for value in (host, port, serves_tls, password)] != [str, int, bool, str]:
        raise TypeError
    authorities = str(_authorities(path, tables.get("node", {"id": "server"}), tls)) if serves_tls else ""
    return AdminAddress(host, port, user, password, authorities, name=name)


def _name(tables: Mapping[str, Any]) -> str:
    """Return the name that the node, or the virtual server, announces."""
    if "server" in tables:
        return str(tables["server"]["id"])
    node = tables["node"]
    return f"{node.get('type', NODE_TYPES[node['kind']])}.{node['id']}"


def _users(section: Mapping[str, Any], passwords: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the users of a section as tables, with passwords from the environment."""
    named = section.get("users", {}).items()
    users = {name: user if isinstance(user, dict) else {"password": user} for name, user in named}
    for name, password in passwords.items():
        users[name] = {**users.get(name, {}), "password": password}
    return users


def _is_admin(user: Mapping[str, object]) -> bool:
    """Return ``AmqpUserSection.is_admin`` for a user in a table. Raises TypeError for a wrong value."""
    admin = user.get("admin")
    if not isinstance(admin, bool | None):
        raise TypeError
    return user.get("permissions") is None and user.get("inboxes") is None if admin is None else admin


def _authorities(path: Path, node: Mapping[str, Any], tls: Mapping[str, Any]) -> Path:
    """Return the file of the authorities that clients of the node trust."""
    data_dir = node.get("data_dir") or Path("var") / node["id"]
    folder = path.parent / (tls.get("dir") or path.parent.resolve() / data_dir / "pki")
    return Path(path.parent, tls.get("trust") or folder / "trust.pem").resolve()


def _passwords(env: Mapping[str, str]) -> dict[str, str]:
    """Return passwords by user. Raises ValueError if the environment sets another key of SECTIONS."""
    passwords = {}
    for name, value in env.items():
        parts = name[len(PREFIX) :].lower().split(NESTED)
        if not name.upper().startswith(PREFIX) or not value or parts[0] not in SECTIONS:
            continue
        if parts[:2] != ["amqp", "users"] or len(parts) != 3:
            raise ValueError(name)
        passwords[parts[2]] = value
    return passwords
