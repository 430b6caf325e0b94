"""The web process of a node: announced on the node's standard output, restarted, ended with the node."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx
import pytest

from semq.app import NodeUnreachable
from semq.config import load
from semq.config.reach import url_of
from semq.installation.empty_database import copy_empty_database
from semq.web.errors import ForeignNode
from semq.web.process import new_link, serve
from tests.cli.command import semq
from tests.prepared.client import PreparedProcess, start_prepared
from tests.service.inprocess import InProcess
from tests.waiting import until_sync

HUB = """
[node]
kind = "platform"
id = "hub"
data_dir = "hub"
[amqp]
port = 0
[http]
port = 0
[nodes."10008"]
password = "x"
"""
USERS = """
[amqp.users]
root = "root root root"
ops = "swordfish swordfish"
"""
PATIENCE_S = 120.0


@contextmanager
def hub(folder: Path, users: str = "") -> Iterator[tuple[PreparedProcess, list[str]]]:
    """Run a hub with [http]; yield it and the list of its lines of output."""
    config = folder / "hub.toml"
    config.write_text(HUB + users)
    copy_empty_database(folder / "hub")
    node = start_prepared("platform_node", "--config", str(config))
    output: list[str] = []
    reading = Thread(target=lambda: output.extend(map(bytes.decode, node.stdout)))
    reading.start()
    try:
        yield node, output
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(PATIENCE_S)
        reading.join()
        node.stdout.close()


def console_addresses(output: list[str]) -> list[str]:
    return [line.split()[1] for line in output if line.startswith("console ")]


def web_processes(pid: int) -> list[int]:
    """Return the ids of the web processes of a node."""
    pgrep = subprocess.run(["pgrep", "-P", str(pid), "-f", "semq.web"], capture_output=True, text=True, check=False)
    return [int(word) for word in pgrep.stdout.split()]


def is_away(url: str) -> bool:
    try:
        httpx.get(url, timeout=5)
    except httpx.TransportError:
        return True
    return False


def test_a_node_with_http_serves_its_console_restarts_it_and_ends_it(tmp_path: Path) -> None:
    with hub(tmp_path) as (node, output):
        (link,) = until_sync(lambda: console_addresses(output), PATIENCE_S)
        origin = link.partition("/first/")[0]
        assert origin != link
        with httpx.Client(base_url=origin, timeout=60, follow_redirects=True, verify=False) as browser:
            assert "Users" in browser.get(link).text
            assert "2.hub" in browser.get("/").text
            assert browser.get("/static/web/base.css").status_code == 200

        # A killed process is restarted on another port. Without a user it prints a new link, which replaces the former.
        (web,) = web_processes(node.pid)
        os.kill(web, signal.SIGKILL)
        new_link = until_sync(lambda: console_addresses(output)[1:], PATIENCE_S)[0]
        assert httpx.get(new_link.partition("/first/")[0] + "/first/" + link.partition("/first/")[2]).status_code == 403
        assert httpx.get(new_link).status_code == 303

        command = semq("web", "--link", "--config", str(tmp_path / "hub.toml"))
        assert httpx.get(command.out.strip()).status_code == 303  # with the port that the system chose

        node.kill()  # its pipe to the web process ends
        until_sync(lambda: is_away(new_link), PATIENCE_S)


def test_a_reload_that_changes_the_users_of_the_node_changes_their_rights_at_the_web_process(tmp_path: Path) -> None:
    with hub(tmp_path, USERS) as (node, output), httpx.Client(timeout=60, verify=False) as browser:
        origin = until_sync(lambda: console_addresses(output), PATIENCE_S)[0].partition("/first/")[0]
        token = re.findall(r'name="csrf" value="([0-9a-f]+)"', browser.get(f"{origin}/sign-in").text)[-1]
        fields = {"csrf": token, "name": "ops", "password": "swordfish swordfish"}
        assert browser.post(f"{origin}/sign-in", data=fields).status_code == 303
        assert browser.get(f"{origin}/users").status_code == 200
        assert status_of(origin, "ops", "swordfish swordfish") == 200

        (tmp_path / "hub.toml").write_text(HUB + USERS.replace('ops = "swordfish swordfish"', 'new = "new new new"'))
        node.send_signal(signal.SIGHUP)
        origin = until_sync(lambda: console_addresses(output)[1:], PATIENCE_S)[0].rstrip("/")
        assert browser.get(f"{origin}/users").headers["location"].startswith("/sign-in")
        assert status_of(origin, "ops", "swordfish swordfish") == 401
        assert status_of(origin, "new", "new new new") == 200


def status_of(origin: str, user: str, password: str) -> int:
    """Return the status of a request to the API by a user of the node."""
    return httpx.get(f"{origin}/api/v1/who", auth=(user, password), timeout=60).status_code


async def test_a_link_to_a_web_process_that_does_not_run_is_refused_with_its_port_file(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(HUB)
    with pytest.raises(NodeUnreachable) as refused:
        await new_link(load(config, {}))
    assert refused.value.facts["file"] == str(tmp_path / "hub" / "web-port")
    assert "semq web" in refused.value.remedy


async def test_the_web_process_with_the_file_of_another_node_than_the_one_that_answers_ends(
    inprocess: InProcess, tmp_path: Path
) -> None:
    node = await inprocess.hub()
    config = tmp_path / "copied.toml"
    config.write_text(HUB.replace('id = "hub"', 'id = "other"'))

    async def never() -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ForeignNode, match=r"answers='2\.hub'.* configured='2\.other'"):
            await serve(load(config, {}), url_of(node.settings, node.port), never)
