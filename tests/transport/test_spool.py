"""A large body in a file: what was added is read again, in blocks."""

from hashlib import sha256

from semq.transport.spool import BLOCK, SpooledBody


def test_a_spooled_body_can_be_read_repeatedly() -> None:
    body = SpooledBody()
    parts = [bytes([number]) * (BLOCK // 2 + 1) for number in range(5)]
    for part in parts:
        body.add(part)
    content = b"".join(parts)
    assert (len(body), body.digest) == (len(content), sha256(content).hexdigest())
    assert [bytes(body), b"".join(body.blocks())] == [content, content]
    assert max(map(len, body.blocks())) <= BLOCK
