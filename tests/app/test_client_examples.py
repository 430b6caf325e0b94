"""The programs of examples/ run."""

import subprocess
import sys
from pathlib import Path

from semq.app import Client
from tests.app.network import Network
from tests.interop.examples import LANGUAGES

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pika_examples_send_and_receive_a_document(network: Network) -> None:
    assert run("pika_send.py", network.sender.url) == "accepted\n"
    assert "1.10008 trade/order/standard/S0001 20" in run("pika_receive.py", network.receiver.url)


def test_the_example_of_the_client_sends_and_receives(network: Network) -> None:
    result = run("app_client.py", network.sender.url, network.receiver.url)
    assert "DELIVERED" in result
    assert "b'<Order>S0002</Order>'" in result


async def test_the_example_of_sql_receives_in_a_transaction(network: Network, receiver: Client) -> None:
    sent = await receiver.send("10008", b"read with SQL", app_key="trade/note//N1")
    await receiver.wait_for_delivery(sent.lk0)
    url = network.sender.database.replace("postgresql://", "postgresql+psycopg://")
    assert f"{sent.lk0} trade/note//N1 b'read with SQL'" in run("app_sql.py", url)


def test_every_program_of_another_language_is_on_the_page_and_in_the_script_that_runs_it() -> None:
    page = (ROOT / "docs" / "applications" / "clients.md").read_text("utf-8")
    programs = {file.name for file in (EXAMPLES / "clients").iterdir()}
    assert {language.file for language in LANGUAGES.values()} == programs
    assert [name for name in programs if f'--8<-- "examples/clients/{name}"' not in page] == []
