"""A receiver whose database is put back while a document in pieces arrives."""

from pydantic import SecretStr

from semq.umx_t.pieces import PIECE_BYTES
from tests.flows.pieces.test_pieces_refused import pieces_at, refusal_of
from tests.flows.real_nodes.test_restored_node import copy_of
from tests.local_node.pieces.test_transfer import (
    PIECES,
    KeepingConsumer,
    body_of,
    confirming,
    is_clean,
    local,
    published,
)
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until

SIZE = 30 * PIECE_BYTES


async def test_a_document_whose_pieces_a_restore_has_lost_is_refused_and_arrives_when_it_is_sent_again(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.hub()
    a = await local(inprocess, "10008", hub.port)
    text = LOCAL_CONFIG.format(name="56001", hub=hub.port).replace("max_document_bytes = 100000\n", PIECES)
    settings = inprocess.settings("56001", text)
    b = await inprocess.start_node(settings)
    await linked(a, b)
    channel, admin = await confirming(inprocess, a), await inprocess.client(a)
    assert await published(channel, "56001", body_of(SIZE), AppKey="a/b/c/K1")
    await until(lambda: pieces_at(b) > 2)
    await b.stop()
    kept, backup = pieces_at(b), SecretStr(copy_of(settings.database.dsn or ""))
    b = await inprocess.start_node(settings)
    await until(lambda: pieces_at(b) > kept + 4)  # more than are under way: some are confirmed
    await b.stop()
    settings = settings.model_copy(update={"database": settings.database.model_copy(update={"url": backup})})
    b = await inprocess.start_node(settings)
    row = await refusal_of(admin, "K1")
    assert (row["outcome"], row["reason"][0]) == ("REJECTED", "SEMQ-1232")
    consumer = await KeepingConsumer.on(inprocess, b)
    for body in (b"small", body_of(SIZE)):
        assert await published(channel, "56001", body)
        delivered = await consumer.next()
        assert bytes(delivered.body) == body
        consumer.channel.ack(delivered.delivery_tag)
    assert (await ask(admin, "failed.remove", {"ids": [row["lk0"]]}))["ok"]

    def are_clean() -> bool:
        b.parts.remains.sweep()  # a notice of the sender frees the pieces of the refused document
        return is_clean(a) and not pieces_at(b)

    await until(are_clean)
