"""An application is killed with SIGKILL while it reads a document in pieces; another one gets the whole document."""

import asyncio
import sys
from hashlib import sha256

from semq.umx_t.pieces import PIECE_BYTES
from tests.local_node.pieces.test_transfer import (
    KeepingConsumer,
    body_of,
    confirming,
    counted,
    is_clean,
    local,
    published,
)
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

SIZE = 20 * PIECE_BYTES + 5
# A program that reads a third of the body, prints a line, and blocks.
READER = f"""
import asyncio, sys, time
from semq.app import Client, link
from semq.transport.spool import SpooledBody

link.SPOOLED_FROM = 1  # size from which bodies go to a file
add = SpooledBody.add

def adding(self, data):
    add(self, data)
    if len(self) > {SIZE // 3}:
        print("reading", flush=True)
        time.sleep(3600)

SpooledBody.add = adding

async def read():
    async with Client(sys.argv[1]) as client:
        async with client.receive() as documents:
            async for document in documents:
                print("whole", flush=True)

asyncio.run(read())
"""


async def test_a_document_whose_reader_is_killed_is_delivered_completely_to_the_next_one(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    url = f"amqp://guest:guest@127.0.0.1:{b.port}/"
    reader = await asyncio.create_subprocess_exec(sys.executable, "-c", READER, url, stdout=asyncio.subprocess.PIPE)
    try:
        assert await published(await confirming(inprocess, a), "56001", body_of(SIZE))
        assert reader.stdout is not None
        assert await asyncio.wait_for(reader.stdout.readline(), 60) == b"reading\n"
        # 21 pieces and the manifest.
        assert counted(b, "SELECT count(*) FROM tb_0030 WHERE app_status = 310") == 22
    finally:
        reader.kill()
        await reader.wait()
    consumer = await KeepingConsumer.on(inprocess, b)
    delivered = await consumer.next()
    headers = delivered.header.headers or {}
    assert sha256(bytes(delivered.body)).hexdigest() == headers["@Digest"] == sha256(body_of(SIZE)).hexdigest()
    assert (delivered.redelivered, headers["@Deliveries"]) == (True, 2)
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))
