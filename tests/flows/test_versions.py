"""Nodes of two versions of the protocol: each peer gets the attributes in the form that it understands."""

from typing import Any

import pytest

from semq.amqp.wire import encode_fields
from semq.app import Client
from semq.engine.frames import read_frame
from semq.umx_t.envelope import Data
from semq.umx_t.headers import PACKED
from semq.umx_t.version import PROPERTY, offer
from tests.flows.by_hand import ME, log_in_by_hand
from tests.service.inprocess import InProcess, linked
from tests.waiting import until


@pytest.mark.parametrize(
    ("properties", "is_packed"),
    [({}, False), ({PROPERTY: [1, 1]}, False), ({PROPERTY: offer()}, True), ({PROPERTY: [2, 9]}, True)],
)
async def test_a_forwarded_document_has_the_form_of_its_receiver_s_version(
    inprocess: InProcess, properties: dict[str, Any], is_packed: bool
) -> None:
    hub = await inprocess.hub()
    sender = await inprocess.local("56001", hub.port)
    await linked(sender)
    peer = await log_in_by_hand(inprocess, hub, **properties)
    async with Client(f"amqp://guest:guest@127.0.0.1:{sender.port}") as client:
        await client.send(str(ME), b"payload", app_key="a/b/c/d", headers={"colour": "red"})
    await until(lambda: peer.documents)
    [document] = peer.documents
    names = set(document.header.headers or {})
    assert (names == {PACKED, "colour"}) if is_packed else {"@Sid", "@Att", "@AppKey", "colour"} < names
    frame = read_frame(document.routing_key, document.header, document.body)
    assert isinstance(frame, Data)
    assert str(frame.envelope.attributes.app_key) == "a/b/c/d"
    assert frame.envelope.attributes.user_headers == encode_fields({"colour": "red"})
