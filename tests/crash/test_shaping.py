"""Links that the kernel slows, in a network namespace of their own where the user may make one."""

import os
import subprocess
import sys

import pytest

from tests.crash.armed.process import ROOT
from tests.crash.shaping import ALONE, DEVICE, Shaper

PROGRAM = """
import asyncio, subprocess
from tests.crash.shaping import Shaper

def used():
    return subprocess.run(["tc", "-s", "class", "show", "dev", "lo"], capture_output=True, text=True).stdout

async def main():
    async def serve(reader, writer):
        await reader.readexactly(1 << 14)
        writer.close()
    shaper, server = Shaper(), await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    slowing = asyncio.create_task(shaper.slow(port, "512kbit", 60.0))
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(bytes(1 << 14))
    await reader.read()
    assert f"htb 1:{port:x}" in used() and "(dropped 0, overlimits 0" not in used(), used()
    slowing.cancel()
    await asyncio.wait([slowing])
    assert not used()

asyncio.run(main())
"""


NETWORK = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', ""]


def test_packets_of_a_slow_port_wait_and_nothing_is_left_at_the_end() -> None:
    assert not Shaper().is_able, "the network of the whole machine"
    able = subprocess.run(
        [*NETWORK, "tc", "qdisc", "add", *DEVICE, "root", "htb"], check=False, capture_output=True, text=True
    )
    if able.returncode:
        pytest.skip(f"this user or kernel cannot slow links: {able.stderr.strip()}")
    variables = {**os.environ, ALONE: "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([*NETWORK, sys.executable, "-P", "-c", PROGRAM], check=True, cwd=ROOT, env=variables, timeout=60)
