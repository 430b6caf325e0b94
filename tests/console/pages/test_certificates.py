"""The page of certificates."""

import re

from semq.pki.slots import SLOTS_FILE
from tests.service.inprocess import InProcess, linked
from tests.web.running import serving


async def test_a_node_without_certificates_is_shown_without_an_error(inprocess: InProcess) -> None:
    hub, node = await inprocess.pair()
    for one in (hub, node):
        async with serving(one) as site:
            page = await (await site.signed_in()).get("/certificates")
            assert (page.status_code, "SEMQ-" in page.text) == (200, False)


async def test_an_unreadable_key_folder_is_an_error(inprocess: InProcess) -> None:
    node = await inprocess.secure_local("10008", await inprocess.secure_hub())
    (node.settings.pki_dir / SLOTS_FILE).write_text("{")
    async with serving(node) as site:
        page = await (await site.signed_in()).get("/certificates")
        assert page.status_code >= 400
        assert "SEMQ-5110" in page.text


async def test_a_revocation_shows_certificates_and_links_and_revokes_what_was_shown(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    node = await inprocess.secure_local("10008", hub)
    await linked(node)
    async with serving(hub) as site:
        admin = await site.signed_in("admin")
        assert 'action="/certificates/revoke"' in (await admin.get("/certificates")).text
        page = (await admin.get("/certificates/revoke?which=10008")).text
        (serial,) = re.findall(r'name="serials" value="(\w+)"', page)
        assert "online: its link ends immediately" in page
        refused = await admin.post_form("/certificates/revoke", serials=[serial], why="")
        assert "give%20a%20reason" in refused.headers["set-cookie"]
        done = await admin.post_form("/certificates/revoke", serials=[serial], why="lost its key")
        assert "1%20certificate" in done.headers["set-cookie"]
        assert await site.audit("cert.revoke") == [("user1", "cert.revoke", "asked"), ("user1", "cert.revoke", "done")]
        assert "lost its key" in (await admin.get("/certificates")).text
        again = await admin.get("/certificates/revoke?which=10008")
        assert "No%20valid%20certificate" in again.headers["set-cookie"]
        operator = await site.signed_in("operator")
        assert (await operator.get("/certificates/revoke?which=10008")).status_code == 403
