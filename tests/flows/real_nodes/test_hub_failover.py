"""A hub whose Postgres fails over to a standby while scheduled documents become due."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from semq.clock import SystemClock
from tests.flows.real_nodes.test_failover import client_of
from tests.service.inprocess import InProcess, linked
from tests.store.embedded.replication import replicated
from tests.waiting import until

DOCUMENTS = 20


@pytest.mark.parametrize("synchronous", [True, False])
async def test_documents_that_become_due_during_a_failover_of_the_hub_arrive_once(
    inprocess: InProcess, tmp_path: Path, synchronous: bool
) -> None:
    """If the standby is asynchronous, it has none of the copies, and their target is online only afterwards."""
    with replicated(tmp_path, synchronous=synchronous) as pair:
        single = inprocess.new_database
        inprocess.new_database = lambda: pair.url
        hub = await inprocess.hub()
        inprocess.new_database = single
        a = await inprocess.local("10008", hub.port)
        await linked(a)
        async with client_of(a) as sender:
            begin = round(SystemClock().wall().timestamp() * 1000)
            due = {b"%d" % number: begin + 1000 + 100 * number for number in range(DOCUMENTS)}
            lk0s = [(await sender.send("56001", body, not_before=at)).lk0 for body, at in due.items()]
            if not synchronous:
                await asyncio.to_thread(pair.cut_replication)
            await until(lambda: hub.engine.custody.rows_by_target.get("1.56001", 0) > DOCUMENTS // 4)
            pair.kill_primary()
            await asyncio.to_thread(pair.promote)
            await until(lambda: hub.engine_starts > 1 and hub.store.state == "open")
            b = await inprocess.local("56001", hub.port)
            await linked(a, b)
            received: list[bytes] = []
            async with client_of(b) as receiver, receiver.receive() as documents:
                async for document in documents:
                    assert SystemClock().wall().timestamp() * 1000 >= due[bytes(document.payload)]
                    received.append(bytes(document.payload))
                    await document.ack()
                    if len(received) >= DOCUMENTS:
                        break
            assert Counter(received) == Counter(list(due))
            for lk0 in lk0s:
                await sender.wait_for_delivery(lk0)
            assert hub.store.counters.went_back == int(not synchronous)
