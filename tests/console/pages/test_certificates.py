"""The page of certificates."""

from semq.pki.slots import SLOTS_FILE
from tests.service.inprocess import InProcess
from tests.web.running import serving


async def test_a_node_without_certificates_is_shown_without_an_error(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    node = await inprocess.local("10008", hub.port)
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
