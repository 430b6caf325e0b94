"""``semq support-bundle``: secrets and documents are planted everywhere, and none is in the archive."""

import io
import tarfile
from pathlib import Path

import pytest

from semq.cli.checkup.redaction import Redaction
from semq.cli.checkup.support import without_values
from semq.config import load
from tests.app.network import Network
from tests.cli.command import semq, semq_process

KEY = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPlantedKeyOfANode\n-----END PRIVATE KEY-----\n"
PLANTED = {
    "hub": "planted-hub-2",
    "admin": "planted/admin@3",
    "webhook": "whsec_cGxhbnRlZC13ZWJob29rLXNlY3JldC00",
    "header": "planted-header-5",
    "proxy": "planted-proxy-6",
    "telemetry": "planted-telemetry-7",
    "oidc": "planted-oidc-8",
    "passphrase": "planted-passphrase-9",
    "database": "planted-db-10",
}
CONFIG = f"""
[node]
kind = "local"
id = "10008"
data_dir = "data"
[database]
url = "postgresql://semq:{PLANTED["database"]}@127.0.0.1:1/semq"
[amqp]
port = 1
[amqp.users]
app = 'planted-"amqp"-1'
root = "{PLANTED["admin"]}"
[hub]
url = "amqp://127.0.0.1:1"
password = "{PLANTED["hub"]}"
[tls]
passphrase_variable = "OF_THE_KEYS"
[telemetry]
endpoint = "https://127.0.0.1/v1/traces"
headers = {{ x-key = "{PLANTED["telemetry"]}" }}
[http]
port = 0
[http.oidc]
issuer = "https://127.0.0.1/"
client_id = "semq"
roles = {{ ops = ["operator"] }}
client_secret = "{PLANTED["oidc"]}"
[[webhooks]]
name = "erp"
url = "https://example.org/"
secret = "{PLANTED["webhook"]}"
headers = {{ authorization = "Bearer {PLANTED["header"]}" }}
proxy = "http://semq:{PLANTED["proxy"]}@127.0.0.1:1"
allow_private = true
"""
LOG = f"""
{{"event": "login", "url": "amqp://app:planted%2Fadmin%403@h:1/", "error": "password={PLANTED["hub"]} refused"}}
{{"event": "x", "value": "planted-\\"amqp\\"-1", "authorization": "Basic cGxhbnRlZA==", "token": "planted-token-11"}}
console http://127.0.0.1:17681/first/planted-first-link-12
postgresql://other:planted-other-13@db/semq unreachable {PLANTED["passphrase"]}
{KEY}harmless end
"""


def contents(archive: Path) -> dict[str, str]:
    """Return the texts of an archive by name."""
    with tarfile.open(archive) as tar:
        return {one.name.partition("/")[2]: (tar.extractfile(one) or io.BytesIO()).read().decode() for one in tar}


def test_secrets_are_in_no_part_of_the_archive(tmp_path: Path) -> None:
    config, log, output = tmp_path / "node.toml", tmp_path / "node.log", tmp_path / "support.tar.gz"
    config.write_text(CONFIG)
    log.write_text(LOG)
    for name in ("pki/next/key.pem", "postgres/password", "passphrase"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(f"planted-file-14\n{KEY}")
    variables = {"OF_THE_KEYS": PLANTED["passphrase"], "SEMQ_TOKEN": "planted-variable-15"}
    (tmp_path / "data/postgres/server.log").write_text(
        "2026-01-01 [1] ERROR:  no room\n2026-01-01 [1] DETAIL:  Failing row contains (planted-row-16,\n"
        "planted-row-17).\n2026-01-01 [1] STATEMENT:  INSERT planted-18\n"
        "2026-01-01 [1] LOG:  planted-variable-15 done\n"
    )
    words = ("support-bundle", "--config", str(config), "--log", str(log), "--output", str(output))
    result = semq_process(*words, **variables)
    assert result.status == 0, result
    parts = contents(output)
    listed = [line.split()[2] for line in result.err.splitlines() if line]
    assert listed == [*parts] == [
        "versions.json", "settings.json", "doctor.json", "node.json", "files.json", "postgres.log", "log-1.txt",
    ]  # fmt: skip
    everything = "".join(parts.values())
    assert [line for line in everything.splitlines() if "lanted" in line] == []
    assert "harmless end" in parts["log-1.txt"]
    assert "ERROR:  no room" in parts["postgres.log"]
    assert "amqp.users.app" in parts["settings.json"]
    assert '"fault"' in parts["node.json"]  # it does not run
    assert "pki/next/key.pem" in parts["files.json"]
    assert output.stat().st_mode & 0o777 == 0o600
    semq(*words).fails(1, "SEMQ-2203", "The file exists already")


def test_a_running_node_answers_with_states_and_without_documents(network: Network, tmp_path: Path) -> None:
    body = b"planted body of a document"
    words = ("--to=56001/support", "--file=-", "--key=secret/order/x/planted-key")
    assert semq("msg", "send", *words, "--node", network.sender.url, stdin=body).status == 0
    for node in (network.sender, network.hub):
        output = tmp_path / f"{node.name}.tar.gz"
        facts = semq("support-bundle", "--config", str(node.place.config), "--output", str(output), "--json")
        assert facts.status == 0, facts
        parts = contents(output)
        assert '"node.status"' in parts["node.json"]
        assert '"queue.census"' in parts["node.json"]
        assert "planted" not in "".join(parts.values())


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text('[node]\nkind = "platform"\nid = "hub"\n')
    result = semq("support-bundle", "--config", str(config), "--log", str(tmp_path / "none"))
    result.fails(1, "SEMQ-2203", "No such file")
    assert [*tmp_path.glob("*.tar.gz")] == []


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("amqps://app:word@h:1/v", "amqps://app:********@h:1/v"),
        ("Authorization: Bearer abc.def", "Authorization: ********"),
        ('"password": "x y"', '"password": "******** y"'),
        ("a document of 10008:20 at h:1", "a document of 10008:20 at h:1"),
    ],
)
def test_texts_that_look_like_secrets_are_replaced_in_any_text(tmp_path: Path, text: str, redacted: str) -> None:
    config = tmp_path / "node.toml"
    config.write_text('[node]\nkind = "platform"\nid = "hub"\n')
    assert Redaction(load(config, {})).redact(text) == redacted


def test_a_line_of_a_postgres_log_without_severity_belongs_to_the_line_before() -> None:
    kept = "a [1] ERROR:  x\n\tmore\n"
    assert without_values(f"{kept}a [1] DETAIL:  row\n\tof it\n{kept}") == kept * 2
