"""Forms: read in bounded memory; recorded in the audit log if a role is missing."""

from collections.abc import AsyncIterator

import pytest

from platform_node.node import HubNode
from semq.web.pages import visit
from tests.web.running import Browser, serving

URLENCODED = {"content-type": "application/x-www-form-urlencoded"}
MULTIPART = {"content-type": "multipart/form-data; boundary=b"}
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


async def pieces(first: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield a body whose length is not announced."""
    yield first
    for _ in range(size // 65_536 + 1):
        yield b"a" * 65_536


async def statuses(browser: Browser, size: int) -> list[int]:
    """Return the statuses of three forms with more than ``size`` bytes."""
    answers = [await browser.post("/language", content=b"a" * (size + 1), headers=URLENCODED)]
    answers.append(await browser.post("/language", content=pieces(b"a=", size), headers=URLENCODED))
    answers.append(await browser.post("/language", content=pieces(FILE, size), headers=MULTIPART))
    return [answer.status_code for answer in answers]


async def test_forms_are_read_in_bounded_memory(hub: HubNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "FORM_MAX", 256 << 10)
    async with serving(hub) as site:
        stranger, person = await site.browser(), await site.signed_in("viewer")
        assert await statuses(stranger, visit.STRANGER_FORM_MAX) == [413] * 3
        assert await statuses(person, visit.FORM_MAX) == [413] * 3
        assert (await person.post_form("/language", language="zh", more="a" * 2 * visit.STRANGER_FORM_MAX)).is_redirect
        assert site.web.memory._free == site.web.http.memory_bytes


async def test_a_refused_form_is_in_the_audit_log(hub: HubNode) -> None:
    async with serving(hub) as site:
        person = await site.signed_in("viewer")
        assert (await person.post_form("/users/add", name="eve")).status_code == 403
        assert await site.audit() == [("user1", "/users/add", "refused")]
