"""``semq db backup|restore``: a database in use, the rights of its applications, and refusals."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from semq.store.backup import DUMP, NOTE
from semq.store.postgres import roles
from semq.store.postgres.schema_version import head
from tests.cli.command import semq

TABLES = """
    SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND relname NOT LIKE 'semq_version%' ORDER BY relname"""


class BackedUpNode:
    """A node's configuration, its database in use, and a role of an application, which has sent a document."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.role = folder, url, f"erp_{uuid4().hex[:12]}"
        self.config = self.configure(url)
        (folder / "data" / "pki").mkdir(parents=True)
        (folder / "data" / "pki" / "node.key").write_text("a private key")
        assert semq("db", "grant", self.role, "--send", "--config", self.config).status == 0
        with psycopg.connect(self.url_of_role()) as connection:
            connection.execute("SELECT semq_send('56001', 'document')")

    def configure(self, url: str, node: str = "10008") -> str:
        file = self.folder / f"{node}.toml"
        file.write_text(
            f'[node]\nkind = "local"\nid = "{node}"\ndata_dir = "data"\n'
            f'[hub]\nurl = "amqp://127.0.0.1:1"\npassword = "x"\n[database]\nurl = "{url}"\n'
        )
        return str(file)

    def url_of_role(self) -> str:
        return semq("db", "url", "--role", self.role, "--libpq", "--config", self.config).out.strip()

    def backup(self, *options: str) -> Path:
        facts = semq("db", "backup", str(self.folder / "backups"), "--config", self.config, "--json", *options)
        assert facts.status == 0, facts.err
        return Path(json.loads(facts.out)["backup"])

    def drop_role(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in (f"DROP OWNED BY {self.role} CASCADE", f"DROP ROLE IF EXISTS {self.role}"):
                connection.execute(statement.encode())


@pytest.fixture
def node(tmp_path: Path, database: str) -> Iterator[BackedUpNode]:
    node = BackedUpNode(tmp_path, database)
    yield node
    with psycopg.connect(database) as connection:
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (node.role,)).fetchone()
    if known:
        node.drop_role()


def rows(url: str) -> dict[str, list[object]]:
    with psycopg.connect(url) as connection:
        tables = [str(name) for (name,) in connection.execute(TABLES)]
        return {table: list(connection.execute(f"SELECT * FROM {table} t ORDER BY t".encode())) for table in tables}


def test_a_restored_database_has_all_rows_and_the_rights_of_its_applications(
    node: BackedUpNode, empty_database: str
) -> None:
    with psycopg.connect(node.url) as working:  # an open transaction does not prevent a backup
        working.execute("UPDATE tb_0031_submit SET token = 'not committed'")
        backup = node.backup("--keys")
        working.rollback()
    before, url = rows(node.url), node.url_of_role()
    assert len(before["tb_0031_submit"]) == 1
    assert {file.name: file.stat().st_mode & 0o777 for file in backup.iterdir() if file.is_file()} == {
        NOTE: 0o600, DUMP: 0o600,
    }  # fmt: skip
    assert backup.stat().st_mode & 0o777 == 0o700

    node.drop_role()  # another server, on which the role does not exist
    for part in ("pki/node.key", f"roles/{node.role}"):
        (node.folder / "data" / part).unlink()
    for part in ("pki", "roles"):
        (node.folder / "data" / part).rmdir()
    node.configure(empty_database)
    result = semq("db", "restore", str(backup), "--config", node.config, "--json")
    assert result.status == 0, result.err
    restored = json.loads(result.out)
    assert (restored["copied"], restored["kept"], restored["revision"]) == (["pki", "roles"], [], head())
    assert rows(empty_database) == before
    assert (node.folder / "data" / "pki" / "node.key").read_text() == "a private key"
    assert node.url_of_role() != url  # of another database, with the same password
    with psycopg.connect(node.url_of_role()) as connection:
        connection.execute("SELECT semq_send('56001', 'another')")
    with psycopg.connect(empty_database) as connection:
        assert roles.open_functions(connection) == []
    assert semq("db", "check", "--config", node.config).status == 0
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {node.role} CASCADE".encode())


def test_without_keys_a_backup_has_no_secrets_and_a_restore_leaves_those_of_the_node(
    node: BackedUpNode, empty_database: str
) -> None:
    backup = node.backup()
    assert sorted(file.name for file in backup.iterdir()) == [NOTE, DUMP]
    node.configure(empty_database)
    result = semq("db", "restore", str(backup), "--config", node.config, "--json")
    assert json.loads(result.out)["copied"] == []
    assert (node.folder / "data" / "pki" / "node.key").exists()
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {node.role} CASCADE".encode())


def test_a_restore_refuses_a_used_database_and_the_backup_of_another_node(node: BackedUpNode) -> None:
    backup = node.backup()
    semq("db", "restore", str(backup), "--config", node.config).fails(1, "SEMQ-3036")
    other = node.configure(node.url, "20002")
    semq("db", "restore", str(backup), "--config", other).fails(78, "SEMQ-2221", "1.10008")


@pytest.mark.parametrize(
    ("damage", "status", "code"),
    [
        (lambda backup: (backup / DUMP).write_bytes(b"x"), 1, "SEMQ-3035"),
        (lambda backup: (backup / DUMP).unlink(), 1, "SEMQ-3035"),
        (lambda backup: (backup / NOTE).unlink(), 1, "SEMQ-3035"),
        (lambda backup: (backup / NOTE).write_text("[]"), 1, "SEMQ-3035"),
        (lambda backup: change_note(backup, checksums={}), 1, "SEMQ-3035"),
        (lambda backup: change_note(backup, revision="9999"), 78, "SEMQ-3011"),
        (lambda backup: change_note(backup, revision="0001"), 78, "SEMQ-3014"),
    ],
)
def test_a_damaged_backup_and_that_of_another_version_are_refused(
    node: BackedUpNode, damage: Callable[[Path], object], status: int, code: str
) -> None:
    backup = node.backup()
    assert semq("db", "check", "--backup", str(backup), "--config", node.config, "--json").data["node"] == "1.10008"
    damage(backup)
    semq("db", "check", "--backup", str(backup), "--config", node.config).fails(status, code)
    semq("db", "restore", str(backup), "--config", node.config).fails(status, code)


def change_note(backup: Path, **facts: object) -> None:
    note = json.loads((backup / NOTE).read_text())
    (backup / NOTE).write_text(json.dumps(note | facts))


def test_old_backups_of_the_same_node_are_deleted(node: BackedUpNode) -> None:
    first = node.backup()
    names = ["1.10008-1", "1.10008-2", "other"]
    for number, name in enumerate(names):
        older = first.with_name(name)
        older.mkdir()
        facts = json.loads((first / NOTE).read_text())
        facts |= {"node": "1.20002" if name == "other" else "1.10008", "made": f"2020-01-0{number + 1}T00:00:00+00:00"}
        (older / NOTE).write_text(json.dumps(facts))
    first.rename(first.with_name("1.10008-now"))
    kept = node.backup("--keep", "2")
    assert {file.name for file in kept.parent.iterdir()} == {kept.name, "1.10008-now", "other"}


def test_a_backup_that_fails_leaves_nothing(node: BackedUpNode) -> None:
    role = f"reader_{uuid4().hex[:12]}"
    with psycopg.connect(node.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'p'".encode())
        connection.execute(f"GRANT SELECT ON semq_version TO {role}".encode())
    try:
        node.configure(re.sub("//semq:[^@]*@", f"//{role}:p@", node.url))
        result = semq("db", "backup", str(node.folder / "backups"), "--config", node.config)
        result.fails(69, "SEMQ-3034", "permission denied")
        assert list((node.folder / "backups").iterdir()) == []
    finally:
        with psycopg.connect(node.url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
