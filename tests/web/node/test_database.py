"""The connections to the node's database."""

import asyncio
import threading

from sqlalchemy import Connection, text

from platform_node.node import HubNode
from tests.web.running import serving


async def test_slow_reads_of_pages_do_not_delay_writes(hub: HubNode) -> None:
    released = threading.Event()

    def slow_query(connection: Connection) -> bool:
        return released.wait(60)

    async with serving(hub) as site:
        slow_reads = [asyncio.create_task(site.web.database.read(slow_query)) for _ in range(8)]
        await asyncio.sleep(0)  # let all of them begin
        assert await site.web.database.write(lambda connection: connection.execute(text("SELECT 1")).scalar()) == 1
        released.set()
        assert await asyncio.gather(*slow_reads) == [True] * 8
