"""The configuration: the values of a valid file; all faults of an invalid file, by their keys."""

from pathlib import Path

import pytest

from semq.config import ConfigInvalid, ConfigUnreadable, Settings, load, nearest
from semq.config.names import all_keys

EXAMPLES = Path(__file__).parents[1] / "examples" / "config"

LOCAL = """
[node]
kind = "local"
id = "10008"
[hub]
url = "amqp://127.0.0.1:17670"
password = "secret-one"
"""
HUB_CONFIG = """
[node]
kind = "platform"
id = "hub"
[nodes."10008"]
password = "secret-one"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "semq.toml"


def read(file: Path, text: str, **env: str) -> Settings:
    file.write_text(text)
    return load(file, env)


def faults(file: Path, text: str, **env: str) -> list[str]:
    """Return the faults of a file with this text, without secrets."""
    file.write_text(text)
    with pytest.raises(ConfigInvalid) as invalid:
        load(file, env)
    assert "secret-" not in invalid.value.advice()
    return [str(fault).replace(str(file), "semq.toml") for fault in invalid.value.faults]


@pytest.mark.parametrize(
    ("name", "kind", "port"), [("platform", "platform", 17670), ("a", "local", 17671), ("b", "local", 17672)]
)
def test_the_secure_examples_are_valid(name: str, kind: str, port: int) -> None:
    settings = load(EXAMPLES / "secure" / f"{name}.toml", {})
    assert (settings.node.kind, settings.amqp.port) == (kind, port)
    assert settings.pki_dir == EXAMPLES.parents[1] / "var" / f"secure-{settings.node.id}" / "pki"
    assert settings.hub is None or settings.hub.url == "amqps://127.0.0.1:17670"


@pytest.mark.parametrize(
    ("name", "kind", "port"), [("platform", "platform", 17670), ("a", "local", 17671), ("b", "local", 17672)]
)
def test_the_examples_are_valid(name: str, kind: str, port: int) -> None:
    settings = load(EXAMPLES / f"{name}.toml", {})
    assert (settings.node.kind, settings.amqp.port) == (kind, port)
    assert settings.data_dir == EXAMPLES.parents[1] / "var" / settings.node.id


def test_the_examples_have_matching_addresses_and_passwords() -> None:
    hub, *locals_ = (load(EXAMPLES / f"{name}.toml", {}) for name in ("platform", "a", "b"))
    for local in locals_:
        assert local.hub is not None
        assert local.hub.url == f"amqp://{hub.amqp.host}:{hub.amqp.port}"
        assert hub.nodes[local.node.id].password == local.hub.password


def test_settings_that_a_file_does_not_set_have_defaults(file: Path) -> None:
    settings = read(file, LOCAL)
    assert (settings.node.umx_type, settings.node.semq_id, settings.database.dsn) == (1, 1, None)
    assert settings.protocol.inquiry_s == 15
    assert settings.data_dir == file.parent / "var" / "10008"
    assert read(file, HUB_CONFIG).node.umx_type == 2
    assert read(file, HUB_CONFIG.replace('"hub"', '"hub"\ntype = 3')).node.umx_type == 3


def test_the_environment_overrides_the_file(file: Path) -> None:
    settings = read(
        file,
        HUB_CONFIG,
        SEMQ_AMQP__PORT="5999",
        SEMQ_NODES__10008__PASSWORD="secret-two",
        SEMQ_NODES__56001__PASSWORD="secret-three",
        SEMQ_NODES__56001__MAY_SEND_TO='["10008"]',
        SEMQ_AMQP__USERS__ERP="secret-four",
        SEMQ_DATABASE__URL="postgresql+psycopg://semq:secret@db/semq",
        SEMQ_LOG__LEVEL="",
        SEMQ_CONFIG="ignored",
        OTHER="ignored",
    )
    assert settings.amqp.port == 5999
    assert {name: node.password and node.password.get_secret_value() for name, node in settings.nodes.items()} == {
        "10008": "secret-two",
        "56001": "secret-three",
    }
    assert settings.nodes["56001"].may_send_to == ["10008"]
    assert settings.amqp.users["erp"].password.get_secret_value() == "secret-four"
    assert settings.database.dsn == "postgresql://semq:secret@db/semq"
    assert settings.log.level == "info"


USERS = """
[amqp]
virtual_hosts = ["/", "shop"]
[amqp.users]
erp = "secret-a"
[amqp.users.web]
inboxes = ["web", ""]
[amqp.users.web.permissions]
shop = { configure = ".*", write = ".*", read = ".*" }
"/" = { write = "^semq$" }
[amqp.users.ops]
password = "secret-c"
admin = true
permissions = {}
"""


def test_users_have_permissions_by_virtual_host(file: Path) -> None:
    amqp = read(file, LOCAL + USERS, SEMQ_AMQP__USERS__WEB="secret-b").amqp
    assert {name: (user.is_admin, sorted(user.granted), user.inboxes) for name, user in amqp.users.items()} == {
        "erp": (True, ["/"], None),
        "web": (False, ["/", "shop"], ["web", ""]),
        "ops": (True, [], None),
    }
    assert amqp.users["web"].granted["/"].model_dump() == {"configure": "", "write": "^semq$", "read": ""}
    assert amqp.users["erp"].granted["/"].read == ".*"


@pytest.mark.parametrize("password", ["1e5", "007", "true", '{"password": "x"}', "[1", "null"])
@pytest.mark.parametrize("variable", ["SEMQ_AMQP__USERS__WEB", "SEMQ_AMQP__USERS__WEB__PASSWORD"])
def test_a_password_from_the_environment_is_text_and_removes_no_restriction(
    file: Path, variable: str, password: str
) -> None:
    for text in (USERS, USERS.replace("inboxes", 'password = "secret-of-file"\ninboxes')):
        web = read(file, LOCAL + text, **{variable: password}).amqp.users["web"]
        assert (web.password.get_secret_value(), web.is_admin, web.inboxes) == (password, False, ["web", ""])


def test_a_table_of_users_from_the_environment_removes_no_restriction(file: Path) -> None:
    web = read(file, LOCAL + USERS, SEMQ_AMQP__USERS='{"web": "secret-b"}').amqp.users["web"]
    assert (web.password.get_secret_value(), web.is_admin) == ("secret-b", False)
    erp = read(file, LOCAL + USERS, SEMQ_AMQP__USERS__WEB="b", SEMQ_AMQP__USERS__ERP__ADMIN="false").amqp.users["erp"]
    assert (erp.password.get_secret_value(), erp.is_admin) == ("secret-a", False)


def test_empty_variables_count_as_not_set(file: Path) -> None:
    settings = read(file, LOCAL, SEMQ_NONSENSE="", SEMQ_LOG__LEVEL="", SEMQ_HUB__PASSWORD="")
    assert settings.hub is not None
    assert settings.hub.password == read(file, LOCAL).hub.password  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "table"),
    [("tls.passphrase_variable", '[tls]\npassphrase_variable = "SEMQ_TLS_PASS"\n'),
     ("secrecy.bodies_key_variable", '[secrecy]\nbodies_key_variable = "SEMQ_TLS_PASS"\n')],
)  # fmt: skip
def test_a_variable_that_the_configuration_names_for_a_secret_is_known(file: Path, key: str, table: str) -> None:
    assert read(file, LOCAL + table, SEMQ_TLS_PASS="secret").values()[key] == "SEMQ_TLS_PASS"
    variable = f"SEMQ_{key.replace('.', '__').upper()}"
    assert read(file, LOCAL, **{variable: "SEMQ_TLS_PASS"}, SEMQ_TLS_PASS="secret").values()[key] == "SEMQ_TLS_PASS"
    [fault] = faults(file, LOCAL.replace("17670", "70000") + table, SEMQ_TLS_PASS="secret")
    assert "Port out of range" in fault


def test_no_file_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load(None, {"SEMQ_NODE__KIND": "platform", "SEMQ_NODE__ID": "hub"})
    assert settings.data_dir == tmp_path / "var" / "hub"


def test_a_data_dir_is_relative_to_the_file_or_to_the_working_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert read(file, LOCAL.replace("[hub]", 'data_dir = "data"\n[hub]')).data_dir == file.parent / "data"
    assert read(file, LOCAL, SEMQ_NODE__DATA_DIR="data").data_dir == Path("/data")
    assert read(file, LOCAL, SEMQ_NODE__DATA_DIR="/srv/semq").data_dir == Path("/srv/semq")


# Fault | file, environment, reported faults
WRONG: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "a misspelt key": (
        LOCAL.replace("[hub]", "semqid = 2\n[hub]"),
        {},
        ["semq.toml: node.semqid: unknown key; did you mean node.semq_id?"],
    ),
    "a misspelt section": (LOCAL + "[ampq]\nport = 1\n", {}, ["semq.toml: ampq: unknown key; did you mean amqp?"]),
    "a key of another section": (
        LOCAL + "[amqp]\nquota_rows_per_partner = 5\n",
        {},
        ["semq.toml: amqp.quota_rows_per_partner: unknown key; did you mean protocol.quota_rows_per_partner?"],
    ),
    "a key that is similar to none": (LOCAL + "[log]\nzzzzz = 1\n", {}, ["semq.toml: log.zzzzz: unknown key"]),
    "a misspelt key of an institution": (
        HUB_CONFIG + 'pasword = "secret"\n',
        {},
        ["semq.toml: nodes.10008.pasword: unknown key; did you mean nodes.10008.password?"],
    ),
    "a misspelt variable": (
        LOCAL,
        {"SEMQ_NODEID": "x", "SEMQ_AMQP__PRT": "1", "SEMQ_LOG__LEVEL__X": "1", "SEMQ_QQQQ": "1"},
        [
            "SEMQ_AMQP__PRT: unknown variable; did you mean SEMQ_AMQP__PORT?",
            "SEMQ_LOG__LEVEL__X: unknown variable; did you mean SEMQ_LOG__LEVEL?",
            "SEMQ_NODEID: unknown variable; did you mean SEMQ_NODE__ID?",
            "SEMQ_QQQQ: unknown variable",
        ],
    ),
    "many faults at once": (
        '[node]\nkind = "hub"\nid = "no spaces"\n[hub]\nurl = "http://x"\n[protocol]\nwindow = 0\ninquiry_s = inf\n',
        {"SEMQ_AMQP__PORT": "secret"},
        [
            "semq.toml: node.kind: Input should be 'local' or 'platform'",
            "semq.toml: node.id: String should match pattern '^[A-Za-z0-9_-]{1,64}$'",
            "SEMQ_AMQP__PORT: amqp.port: Input should be a valid integer, unable to parse string as an integer",
            "semq.toml: hub.url: must be amqp://host:port or amqps://host:port",
            "semq.toml: protocol.inquiry_s: Input should be a finite number",
            "semq.toml: protocol.window: Input should be greater than or equal to 1",
        ],
    ),
    "a password in the hub's address": (
        LOCAL.replace("127.0.0.1", "10008:secret@127.0.0.1"),
        {},
        [
            (
                "semq.toml: hub.url: must not contain a user or a password: the user is node.id, "
                "the password is hub.password"
            )
        ],
    ),
    "a path in the hub's address": (
        LOCAL.replace("17670", "17670/other"),
        {},
        ["semq.toml: hub.url: must end after the port: the virtual host of links is always umx"],
    ),
    "an invalid port": (LOCAL.replace("17670", "70000"), {}, ["semq.toml: hub.url: Port out of range 0-65535"]),
    "a database that is not Postgres": (
        LOCAL + '[database]\nurl = "mysql://secret@db/x"\n',
        {},
        [
            (
                "semq.toml: database.url: must be postgresql://user:password@host:port/database "
                "(or omitted for an embedded server)"
            )
        ],
    ),
    "a local node without a hub": (
        LOCAL.partition("[hub]")[0],
        {},
        [
            (
                "semq.toml: hub: missing: a local node needs hub.url (and hub.password if it is not amqps://), "
                "or partners in [direct]"
            )
        ],
    ),
    "a local node that knows institutions": (
        LOCAL + '[nodes."1"]\npassword = "x"\n',
        {},
        ["semq.toml: nodes: only the hub has institutions; remove this section or set node.kind to platform"],
    ),
    "a hub with a hub": (
        HUB_CONFIG + LOCAL.partition("[hub]")[1] + LOCAL.partition("[hub]")[2],
        {},
        ["semq.toml: hub: this node is the hub; remove this section or set node.kind to local"],
    ),
    "an agreement with an unknown institution": (
        HUB_CONFIG + 'may_send_to = ["10009"]\n',
        {},
        ["semq.toml: nodes.10008.may_send_to: 10009 is not among nodes; did you mean 10008?"],
    ),
    "a link in clear without a password": (
        LOCAL.replace('password = "secret-one"', ""),
        {},
        [
            (
                "semq.toml: hub.password: missing (or SEMQ_HUB__PASSWORD): a login by amqp:// needs it; "
                "amqps:// uses a certificate"
            )
        ],
    ),
    "a link in clear to another machine": (
        LOCAL.replace("127.0.0.1", "hub.example.org"),
        {},
        [
            (
                "semq.toml: hub.url: leads to another machine without TLS: use amqps://, "
                "or set hub.allow_plain to permit it"
            )
        ],
    ),
    "another address of the hub, in clear to another machine": (
        LOCAL.replace("[hub]", '[hub]\nmore_urls = ["amqp://hub.example.org"]'),
        {},
        [
            (
                "semq.toml: hub.more_urls: leads to another machine without TLS: use amqps://, "
                "or set hub.allow_plain to permit it"
            )
        ],
    ),
    "addresses of the hub with and without certificates": (
        LOCAL.replace("[hub]", '[hub]\nmore_urls = ["amqps://127.0.0.1:1"]'),
        {},
        ["semq.toml: hub.more_urls: must begin like hub.url: all with amqps://, or all with amqp://"],
    ),
    "an address of the hub twice": (
        LOCAL.replace("[hub]", '[hub]\nmore_urls = ["amqp://127.0.0.1:17670"]'),
        {},
        ["semq.toml: hub.more_urls: names an address twice"],
    ),
    "a port in clear for other machines": (
        HUB_CONFIG + '[amqp]\nhost = "0.0.0.0"\n',
        {},
        [
            (
                "semq.toml: amqp.host: other machines could connect without TLS: "
                "set amqp.tls, or amqp.allow_plain to permit it"
            )
        ],
    ),
    "a node that could not log in": (
        HUB_CONFIG.replace('password = "secret-one"', ""),
        {},
        ["semq.toml: nodes.10008.password: missing: without amqp.tls a node can log in only with a password"],
    ),
    "limits that contradict each other": (
        LOCAL + "reconnect_s_min = 60\n[protocol]\ninquiry_s = 400\n[amqp]\nmax_message_bytes = 1000\n",
        {},
        [
            "semq.toml: protocol.inquiry_s: is greater than protocol.inquiry_s_max",
            "semq.toml: hub.reconnect_s_min: is greater than hub.reconnect_s_max",
            (
                "semq.toml: protocol.max_document_bytes: is greater than amqp.max_message_bytes: "
                "such a document could not arrive"
            ),
        ],
    ),
    "limits above the largest possible document and message": (
        LOCAL + "[protocol]\nmax_document_bytes = 268_435_457\n[amqp]\nmax_message_bytes = 1_073_741_825\n",
        {},
        [
            "semq.toml: protocol.max_document_bytes: Input should be less than or equal to 268435456",
            "semq.toml: amqp.max_message_bytes: Input should be less than or equal to 1073741824",
        ],
    ),
    "a misspelt key of a user, who has no password": (
        LOCAL + USERS.replace("[amqp.users.web]", '[amqp.users.web]\npasword = "secret"'),
        {},
        [
            "semq.toml: amqp.users.web.pasword: unknown key; did you mean amqp.users.web.password?",
            "semq.toml: amqp.users.web.password: missing (or SEMQ_AMQP__USERS__WEB__PASSWORD)",
        ],
    ),
    "a virtual host that does not exist": (
        HUB_CONFIG + USERS.replace('"shop"]', '"shopping", "umx"]'),
        {"SEMQ_AMQP__USERS__WEB": "secret"},
        [
            "semq.toml: amqp.virtual_hosts: umx is reserved for the hub: choose another name",
            "semq.toml: amqp.users.web.permissions: shop is not among amqp.virtual_hosts; did you mean shopping?",
            "semq.toml: amqp.users.web.inboxes: only local nodes have inboxes; remove this key",
        ],
    ),
    "invalid expressions and names": (
        LOCAL + USERS.replace("^semq$", "^(secret").replace('"web", ""', '"a b"').replace('"shop"]', '"shop", ""]'),
        {"SEMQ_AMQP__USERS__WEB": "secret", "SEMQ_AMQP__USERS__WEB__PASWORD": "secret"},
        [
            (
                "semq.toml: amqp.users.web.permissions./.write: is not a regular expression: "
                "missing ), unterminated subpattern at position 1"
            ),
            "semq.toml: amqp.users.web.inboxes.0: String should match pattern '^[A-Za-z0-9_-]{0,64}$'",
            "semq.toml: amqp.virtual_hosts.2: String should match pattern '^[^\\x00-\\x1f]{1,127}$'",
            "SEMQ_AMQP__USERS__WEB__PASWORD: unknown variable; did you mean SEMQ_AMQP__USERS__NAME__PASSWORD?",
        ],
    ),
    "a value where a section belongs": (
        "amqp = 5\n" + LOCAL,
        {},
        ["semq.toml: amqp: must be a section, not a value"],
    ),
}


# Why a port or a link is permitted | the file
ALLOWED = {
    "TLS at both ends": LOCAL.replace("amqp://127.0.0.1", "amqps://hub.example.org").replace("password", "# password"),
    "loopback by name": LOCAL.replace("127.0.0.1", "localhost"),
    "loopback of IPv6": LOCAL.replace("127.0.0.1", "[::1]"),
    "a link in clear, allowed": LOCAL.replace("127.0.0.1", "hub.example.org") + "allow_plain = true\n",
    "a port in clear, allowed": HUB_CONFIG + '[amqp]\nhost = "0.0.0.0"\nallow_plain = true\n',
    "a TLS port": HUB_CONFIG.replace("password", "# password") + '[amqp]\nhost = "::"\ntls = true\n',
}


@pytest.mark.parametrize("reason", ALLOWED)
def test_permitted_ports_and_links_are_accepted(reason: str, file: Path) -> None:
    assert read(file, ALLOWED[reason]).node.id


def test_paths_are_relative_to_the_file_or_to_the_working_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    settings = read(file, LOCAL + '[tls]\ntrust = "ca.pem"\npassphrase_file = "/etc/p"\n', SEMQ_TLS__DIR="keys")
    assert settings.tls.trust == file.parent / "ca.pem"
    assert settings.tls.passphrase_file == Path("/etc/p")
    assert settings.pki_dir == Path("/keys")
    assert read(file, LOCAL).pki_dir == file.parent / "var" / "10008" / "pki"


@pytest.mark.parametrize("fault", WRONG)
def test_every_fault_is_named(fault: str, file: Path) -> None:
    text, env, expected = WRONG[fault]
    assert sorted(faults(file, text, **env)) == sorted(expected)


def test_a_list_that_is_not_json_names_its_variable(file: Path) -> None:
    [fault] = faults(file, HUB_CONFIG, SEMQ_NODES__10008__MAY_SEND_TO="secret,other")
    assert fault.startswith("SEMQ_NODES__10008__MAY_SEND_TO: nodes.10008.may_send_to: ")


def test_a_table_that_is_not_json_is_a_fault(file: Path) -> None:
    [fault] = faults(file, HUB_CONFIG, SEMQ_AMQP__USERS="secret,other")
    assert "users" in fault or "amqp" in fault


@pytest.mark.parametrize("content", [b"[node\n", b"\xff\xfe", None])
def test_an_unreadable_file_is_named(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigUnreadable, match=r"semq\.toml"):
        load(file, {})


def test_secrets_are_shown_nowhere(file: Path) -> None:
    settings = read(
        file,
        HUB_CONFIG.replace("secret", "hidden")
        + '[database]\nurl = "postgresql://semq:hidden@db/semq"\n[amqp]\nusers = { erp = "hidden-two" }\n',
    )
    assert "hidden" not in repr(settings) + str(settings.explain()) + settings.model_dump_json()


def test_the_origin_of_every_value_is_known(file: Path) -> None:
    settings = read(file, HUB_CONFIG, SEMQ_NODE__SEMQ_ID="3", SEMQ_AMQP='{"port": 1234}')
    origins = {row.key: (row.value, row.origin) for row in settings.explain()}
    assert origins["node.id"] == ("hub", str(file))
    assert origins["node.semq_id"] == ("3", "SEMQ_NODE__SEMQ_ID")
    assert origins["amqp.port"] == ("1234", "SEMQ_AMQP")
    assert origins["nodes.10008.password"] == ("********", str(file))
    assert origins["protocol.inquiry_s"] == ("15.0", "default")
    assert origins["database.url"] == ("", "default")
    assert [row.key for row in settings.explain() if not row.help] == []
    assert origins["secrecy.mixed_network"] == ("false", "default")
    assert origins["amqp.virtual_hosts"][0] == '["/"]'


def test_settings_cannot_be_changed(file: Path) -> None:
    settings = read(file, LOCAL)
    with pytest.raises(ValueError, match="frozen"):
        settings.amqp.port = 1


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("inquirys", [keys[-1] for keys in all_keys()]) == "inquiry_s"
    assert nearest("PORT", ["port", "host"]) == "port"
    assert nearest("x", ["port"]) is None
