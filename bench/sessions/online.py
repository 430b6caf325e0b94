"""Institutions that are online at one process of the hub, over TLS with certificates.

This process simulates their nodes: a connection with TLS, a login by certificate, and the two channels and queues of a
link (PROTOCOL.md section 14). All nodes dial at the same time, as after a restart of the hub, with at most
``HANDSHAKES_MAX`` handshakes under way. Each institution has one partner to which it may send.

``login_storm_s`` is the time until the last node is online. ``kib_per_session`` is the additional memory of the hub's
process for each session. ``idle_cpu_percent`` is the processor time of the hub, in percent of one core, while no
documents are sent (heartbeats included).
"""

import argparse
import asyncio
import os
import resource
import ssl
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from bench import cli
from bench.cli import Result, say
from bench.errors import NoFigures
from bench.sessions.process import cpu_s, process, rss
from semq.clock import SystemClock
from semq.errors import SemqError
from semq.pki.authority import Authority, read_authority
from semq.pki.keys import new_key
from semq.pki.tls import client_context, load_pair
from semq.pki.trust import TrustStore
from semq.transport.client import ClientLink
from semq.transport.dialer import DialConfig, dial
from semq.transport.turn import Turn
from semq.umx_t.address import Address, NodeType
from semq.umx_t.version import PROPERTY, offer

HANDSHAKES_MAX = 256
RETRIES_MAX = 2560  # retries of all nodes together
DAYS = 1.0  # validity of the certificates
HANDLES = 200  # file handles of this process in addition to its connections
RETRY_S = 0.2
SUMMARY = """
{sessions} institutions online at one process of the hub, TLS with certificates; {cores} cores, load {load_1m}
  login    {login_storm_s:>7} s until all are online, {login_cpu_ms} ms of the hub's processor time each
  memory   {kib_per_session:>7} KiB a session, {rss_mib} MiB in all
  at rest  {idle_cpu_percent:>7} % of a core
"""


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Start the hub, let all nodes log in, and measure. Raises NoFigures."""
    count, load = arguments.institutions, cli.load_average()
    _allow_connections(count)
    names = [f"{number:05d}" for number in range(1, count + 1)]
    (folder / "hub.toml").write_text(
        '[node]\nkind = "platform"\nid = "hub"\ndata_dir = "hub"\n'
        f"[amqp]\nport = 0\ntls = true\nmax_connections = {count + HANDLES}\n"
        f'max_connections_per_address = {count + HANDLES}\n[log]\nlevel = "error"\n'
        + "".join(f'[nodes."{name}"]\nmay_send_to = ["{names[at - 1]}"]\n' for at, name in enumerate(names))
    )
    async with AsyncExitStack() as stack:
        hub, address = await stack.enter_async_context(process(folder, "platform_node", "hub.toml"))
        authority = read_authority(folder / "hub" / "pki", None)
        if authority is None:
            raise NoFigures("the hub has no authority")
        say(f"making {count} certificates ...")
        sessions = SimulatedSessions(folder, authority, address)
        contexts = [sessions.context(name) for name in names]
        rss_before, cpu_before = rss(hub), cpu_s(hub)
        stack.push_async_callback(sessions.close)
        say(f"{count} institutions log in ...")
        began = time.monotonic()
        await asyncio.gather(*map(sessions.begin, names, contexts))
        login_s, login_cpu_s = time.monotonic() - began, cpu_s(hub) - cpu_before
        say(f"measuring {arguments.idle:g} s at rest ...")
        rss_after, cpu_before = rss(hub), cpu_s(hub)
        began = time.monotonic()
        await asyncio.sleep(arguments.idle)
        idle_s, idle_cpu_s = time.monotonic() - began, cpu_s(hub) - cpu_before
        if sessions.lost:
            raise NoFigures(f"{sessions.lost} sessions ended while they were at rest")
    return {
        "sessions": count, "login_storm_s": round(login_s, 1), "login_cpu_ms": round(1000 * login_cpu_s / count, 2),
        "kib_per_session": round((rss_after - rss_before) / count / 1024, 1),
        "rss_mib": round(rss_after / (1 << 20), 1),
        "idle_cpu_percent": round(100 * idle_cpu_s / idle_s, 2), "retries": sessions.retries, "load_1m": load,
        "cores": len(os.sched_getaffinity(0)),
    }  # fmt: skip


class SimulatedSessions:
    """The sessions of simulated nodes, which have no engine."""

    def __init__(self, folder: Path, authority: Authority, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.retries = 0  #: number of logins that were repeated after a failure
        self.lost = 0  #: number of sessions that have ended
        self._folder = folder
        self._authority = authority
        self._config = DialConfig(
            host, int(port), virtual_host="umx", connect_s=120.0, client_properties={PROPERTY: offer()}
        )
        self._trust = TrustStore([authority.certificate])
        self._key = new_key()
        self._key_file = folder / "key.pem"
        self._key_file.write_bytes(
            self._key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self._clock, self._turn = SystemClock(), Turn()
        self._handshakes = asyncio.Semaphore(HANDSHAKES_MAX)
        self._links: list[ClientLink] = []

    def context(self, name: str) -> ssl.SSLContext:
        """Return the TLS context of a node, with its own certificate."""
        node = Address(NodeType.LOCAL, name)
        file = self._folder / "certificate.pem"
        file.write_bytes(self._authority.issue(self._key.public_key(), node, datetime.now(UTC), DAYS).pem)
        context = client_context(self._trust)
        load_pair(context, file, self._key_file, None)
        return context

    async def begin(self, name: str, context: ssl.SSLContext) -> None:
        """Log in a node and open its link; repeat a failed login, RETRIES_MAX times for all nodes together."""
        async with self._handshakes:
            while True:
                try:
                    await self._link(name, context)
                except (SemqError, OSError):
                    self.retries += 1
                    if self.retries > RETRIES_MAX:
                        raise
                    await asyncio.sleep(RETRY_S)
                else:
                    return

    async def close(self) -> None:
        for link in self._links:
            link.link.abort()

    async def _link(self, name: str, context: ssl.SSLContext) -> None:
        client = await dial(replace(self._config, tls=context), self._clock, self._turn)
        data, control = await client.open_channel(), await client.open_channel()
        await data.confirm_select()
        await data.qos(1024)
        await control.consume(f"node.1.{name}.control", _ignore, no_ack=True)
        await data.consume(f"node.1.{name}", _ignore)
        data.on_closed = self._on_closed
        self._links.append(client)

    def _on_closed(self, _: object) -> None:
        self.lost += 1


def _ignore(_: Any) -> None:
    """Ignore messages of the hub."""


def _allow_connections(count: int) -> None:
    """Raise the limit of open files. Raises NoFigures if that does not suffice."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < count + HANDLES:
        raise NoFigures(f"the limit of open files, {limit}, allows fewer than {count} sessions (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
