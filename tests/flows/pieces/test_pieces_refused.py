"""Documents in pieces that the receiver's node refuses: what operators see, which rows remain, what is sent again."""

from collections.abc import Mapping
from typing import Any

from local_node.node import LocalNode
from semq.seal.errors import KeyUnknown, SealMalformed
from semq.umx_t.pieces import PIECE_BYTES
from tests.local_node.pieces.test_transfer import (
    PIECES,
    KeepingConsumer,
    body_of,
    confirming,
    counted,
    is_clean,
    local,
    published,
)
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

SIZE = 6 * PIECE_BYTES
QUOTA = PIECES + f"quota_piece_bytes_per_partner = {8 * PIECE_BYTES}\n"  # one document and a part of another


async def refusal_of(admin: Any, key: str) -> Mapping[str, Any]:
    """Return the row of a document when it is refused."""

    async def refused() -> Any:
        return (await ask(admin, "failed.list", {"key": key}))["result"]["rows"]

    (row,) = await until(refused)
    assert isinstance(row, dict)
    return row


def pieces_at(node: LocalNode, condition: str = "true") -> int:
    """Return the number of received pieces that meet the condition."""
    return counted(node, f"SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces' AND {condition}")


async def test_a_document_refused_because_of_the_quota_arrives_whole_after_a_requeue(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port, QUOTA)
    await linked(a, b)
    channel, admin = await confirming(inprocess, a), await inprocess.client(a)
    assert await published(channel, "56001", body_of(SIZE), AppKey="a/b/c/first")
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = ''"))
    assert await published(channel, "56001", body_of(SIZE + 7), AppKey="a/b/c/second")
    row = await refusal_of(admin, "second")
    assert row["state"] == "REFUSED"
    assert row["reason"][0] == "SEMQ-1231"
    assert "SEMQ-1234" in row["reason"][1]
    # No refused piece is kept for an operator.
    await until(lambda: not counted(a, "SELECT count(*) FROM tb_0031"))
    await until(lambda: not pieces_at(b, "status <> 410"))

    consumer = await KeepingConsumer.on(inprocess, b)
    first = await consumer.next()
    consumer.channel.ack(first.delivery_tag)
    await until(lambda: not counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = ''"))
    # The recorded pieces of the second document stay.
    assert 0 < pieces_at(b, "app_status = 310") < 6
    await ask(admin, "failed.requeue", {"ids": [row["lk0"]]})
    second = await consumer.next()
    assert bytes(second.body) == body_of(SIZE + 7)
    consumer.channel.ack(second.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))


async def test_pieces_that_cannot_be_opened_are_not_kept(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    b.engine.receiver.secrecy = FailingSecrecy(b.engine.receiver.secrecy, SealMalformed())
    assert await published(await confirming(inprocess, a), "56001", body_of(SIZE), AppKey="a/b/c/K1")
    row = await refusal_of(await inprocess.client(a), "K1")
    assert "SEMQ-5" in row["reason"][1]
    await until(lambda: not counted(a, "SELECT count(*) FROM tb_0031"))
    await until(lambda: not pieces_at(b))


async def test_a_piece_for_an_old_key_is_sent_again_for_the_present_one(inprocess: InProcess) -> None:
    """B cannot open the first three pieces, as after a renewal of its certificate."""
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    b.engine.receiver.secrecy = without_key = FailingSecrecy(b.engine.receiver.secrecy, KeyUnknown(), 3)
    assert await published(await confirming(inprocess, a), "56001", body_of(SIZE), AppKey="a/b/c/K1")
    consumer = await KeepingConsumer.on(inprocess, b)
    delivered = await consumer.next()
    assert bytes(delivered.body) == body_of(SIZE)
    assert not without_key.failures_left
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))


class FailingSecrecy:
    """Secrecy that fails to open the next ``failures`` messages."""

    def __init__(self, secrecy: Any, error: Exception, failures: int = 1000) -> None:
        self._secrecy = secrecy
        self._error = error
        self.failures_left = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._secrecy, name)

    def open(self, envelope: Any, body: Any) -> Any:
        if self.failures_left:
            self.failures_left -= 1
            raise self._error
        return self._secrecy.open(envelope, body)
