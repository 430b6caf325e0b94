"""The page of settings and the reload of the configuration."""

from tests.service.inprocess import InProcess
from tests.service.operations.test_reload import local, rewrite
from tests.web.running import serving


async def test_an_administrator_applies_a_changed_file_and_sees_its_values(inprocess: InProcess) -> None:
    node = await local(inprocess)
    async with serving(node) as site:
        browser, operator = await site.signed_in("admin"), await site.signed_in("operator")
        assert "Nothing%20has%20changed" in (await browser.post_form("/settings/reload")).headers["set-cookie"]
        rewrite(node, ("max_connections = 50", "max_connections = 60"), ("port = 0\n", "port = 1\n"))
        assert (await operator.post_form("/settings/reload")).status_code == 403
        assert node.settings.amqp.max_connections == 50
        assert (await browser.post_form("/settings/reload")).status_code == 303
        assert node.settings.amqp.max_connections == 60
        page = (await browser.get("/settings?key=amqp")).text
        assert "In use now: amqp.max_connections. At the next start: amqp.port." in page
        assert '<span class="mono">60</span>' in page
