"""Secrets of a real node appear in no log, table, answer or list of processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg

from semq.installation.empty_database import copy_empty_database
from semq.store.embedded.server import EmbeddedPostgres
from tests.cli.command import semq
from tests.service.credentials.test_secrecy import command_lines

PASSWORD, VARIABLE, PASSPHRASE = "PLANTED-pass-4711", "PLANTED-env-4712", "PLANTED-phrase-4713"
WRONG = "PLANTED-bad-4714"
HUB = f"""
[node]
kind = "platform"
id = "hub"
data_dir = "data"
[amqp]
port = 0
tls = true
users = {{ app = "{PASSWORD}" }}
[nodes."10008"]
[tls]
passphrase_file = "phrase"
[log]
level = "debug"
"""


def test_planted_secrets_are_found_nowhere(tmp_path: Path) -> None:
    file, phrase = tmp_path / "hub.toml", tmp_path / "phrase"
    file.write_text(HUB)
    phrase.touch(mode=0o600)
    phrase.write_text(PASSPHRASE)
    copy_empty_database(tmp_path / "data")
    results = [semq("hub", "init-ca", "--config", str(file))]
    with (tmp_path / "log").open("w") as log:
        node = subprocess.Popen(
            [sys.executable, "-P", "-m", "platform_node", "--config", str(file)],
            stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | {"SEMQ_AMQP__USERS__SECOND": VARIABLE},
        )  # fmt: skip
        assert node.stdout is not None
        address = node.stdout.readline().strip().removeprefix("ready ")
        address += f"?cafile={next((tmp_path / 'data' / 'pki').rglob('trust.pem'))}"
        url = f"amqps://app:{PASSWORD}@{address}"
        token = semq("hub", "nodes", "token", "10008", "--json", "--node", url).data["token"]
        results += [
            semq("node", "status", "--node", f"amqps://app:{WRONG}@{address}"),
            semq("node", "status", SEMQ_NODE=f"amqps://second:{VARIABLE}@{address}"),
            semq("cert", "list", "--node", url),
            semq("config", "show", "--origin", "--config", str(file), SEMQ_AMQP__USERS__SECOND=VARIABLE),
        ]
        listed = command_lines()
        with psycopg.connect(EmbeddedPostgres(tmp_path / "data").url) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            rows = [str(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for (name,) in tables]
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0
        node.stdout.close()
    assert [result.status for result in results] == [0, 78, 0, 0, 0], results
    shown = [text for result in results for text in (result.out, result.err)]
    for text in (*shown, *rows, listed, (tmp_path / "log").read_text()):
        for secret in (PASSWORD, VARIABLE, PASSPHRASE, WRONG, token, "PRIVATE KEY"):
            assert secret not in text
    keys = [key.read_text() for key in (tmp_path / "data" / "pki").rglob("*.key")]
    assert keys
    assert all("BEGIN ENCRYPTED PRIVATE KEY" in key for key in keys)
