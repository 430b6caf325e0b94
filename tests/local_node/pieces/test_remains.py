"""Old pieces at a receiver: removed if their manifest never came, kept while it waits."""

import asyncio

import psycopg

from local_node.node import LocalNode
from local_node.pieces.remains import KEPT_DAYS
from tests.local_node.pieces.test_transfer import SIZE, body_of, confirming, counted, local, published
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

MANIFESTS = "SELECT count(*) FROM tb_0030 WHERE target_user = ''"
PIECES = "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces'"


def age(node: LocalNode) -> None:
    with psycopg.connect(node.store.url) as connection:
        connection.execute("UPDATE tb_0030 SET received_at = received_at - %s * interval '1 day'", (KEPT_DAYS + 1,))


async def looked(node: LocalNode) -> None:
    """Let the node look once from now on."""
    for _ in range(2):
        node.remains.sweep()
        await until(lambda: not node.remains.is_sweeping)
    await asyncio.sleep(0)


async def test_old_pieces_stay_while_their_document_waits_and_go_without_it(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    assert await published(await confirming(inprocess, a), "56001", body_of(SIZE))
    await until(lambda: counted(b, MANIFESTS))
    age(b)
    await looked(b)
    assert counted(b, PIECES) >= 21
    with psycopg.connect(b.store.url) as connection:
        connection.execute("DELETE FROM tb_0030 WHERE target_user = ''")
    b.remains.sweep()
    await until(lambda: not counted(b, PIECES))
