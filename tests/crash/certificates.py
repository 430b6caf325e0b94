"""Certificates under load: roll-overs and revocations of real nodes, as an operator does them, until they have worked.

Used by ``world`` (enrolment) and ``faults`` (``renew``, ``revoke``) in campaigns with ``--secure``. Whatever else dies
meanwhile, each step is repeated until the hub has answered: all of them may be.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from local_node.enrolment import HubAddress, enrol
from semq.app import Client
from semq.clock import SystemClock
from semq.errors import SemqError
from semq.pki.slots import KeyRing
from semq.umx_t.address import parse_address

PATIENCE_S = 120.0
RETRY_S = 0.3
REVOKED_S_MAX = 10.0  # a live link ends within seconds, on a machine that may be busy with other things


async def ask(url: str, operation: str, **arguments: Any) -> Any:
    """One request to a node that may be dying. Raises SemqError or OSError."""
    async with Client(url, patience_s=10.0) as client:
        return await client.request(operation, arguments)


async def insist(url: Any, operation: str, **arguments: Any) -> Any:
    """The same, again and again; ``url`` gives where the node is now. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask(url(), operation, **arguments)
            except (SemqError, OSError):
                await asyncio.sleep(RETRY_S)


async def enrolled(folder: Path, node: str, port: Any, url: Any) -> None:
    """Give a node that is down (or will be started anew) another certificate, by token and fingerprint."""
    told = await insist(url, "nodes.token", node=node.partition(".")[2])
    ring = KeyRing(folder / "pki", parse_address(node))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await enrol(ring, HubAddress("127.0.0.1", port()), told["fingerprint"], told["token"], SystemClock())
                return
            except (SemqError, OSError):
                await asyncio.sleep(RETRY_S)


async def revoked(url: Any, node: str) -> float:
    """Revoke all certificates of a node; how long its link lived after that, in seconds."""
    await insist(url, "cert.revoke", which=node, why="a bad day")
    started = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while await _is_online(url, node):  # noqa: ASYNC110  (it happens in another process)
            await asyncio.sleep(RETRY_S)
    return time.monotonic() - started


async def _is_online(url: Any, node: str) -> bool:
    return any(row["node"] == node and row["online"] for row in await insist(url, "nodes.list"))
