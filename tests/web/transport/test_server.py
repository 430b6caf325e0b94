"""The HTTP server: cookies for TLS only, client certificates, invalid files, a port in use."""

import asyncio
import hashlib
import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from platform_node.node import HubNode
from semq.config.web import HttpSection
from semq.errors import UnusablePath
from semq.web.errors import WebPortTaken
from semq.web.transport.server import Server
from tests.web.running import DIRECT, serving


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """Return a self-signed certificate of this machine, and its key."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=erp", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return {"certificate": certificate, "key": key}


def fingerprint(certificate: Path) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


def context(files: dict[str, Any], *, presents: bool = False) -> ssl.SSLContext:
    """Return the TLS context of a client, which may present the certificate."""
    tls = ssl.create_default_context(cafile=str(files["certificate"]))
    if presents:
        tls.load_cert_chain(files["certificate"], files["key"])
    return tls


async def test_a_client_certificate_has_the_rights_of_its_fingerprint(hub: HubNode, files: dict[str, Any]) -> None:
    rights: dict[str, Any] = {"certificates": {fingerprint(files["certificate"]): ["viewer"]}}
    async with serving(hub, **files, client_authorities=files["certificate"], **rights) as site:
        async with httpx.AsyncClient(base_url=site.url, verify=context(files, presents=True)) as known:
            content = (await known.get("/api/v1/who")).json()
            assert (content["via"], content["rights"]) == ("certificate", ["viewer"])
            assert (await known.post("/api/v1/node/reload", json={})).status_code == 403
        async with httpx.AsyncClient(base_url=site.url, verify=context(files)) as unknown:
            assert (await unknown.get("/api/v1/who")).status_code == 401


async def test_cookies_of_https_are_not_sent_over_http(hub: HubNode, files: dict[str, Any]) -> None:
    async with serving(hub, **files) as site:
        assert site.link.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=context(files)) as browser:
            answer = await browser.get(site.link)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-semq_")
        assert "Secure" in cookie
        assert "max-age" in answer.headers["strict-transport-security"]


async def test_an_invalid_certificate_is_an_error_with_its_file(hub: HubNode, files: dict[str, Any]) -> None:
    files["certificate"].write_text("no certificate")
    with pytest.raises(UnusablePath, match=r"certificate\.pem"):
        async with serving(hub, **files):
            pass


@pytest.mark.parametrize("content", ["no authority", None])
async def test_invalid_or_missing_authorities_are_an_error_with_their_file(
    hub: HubNode, files: dict[str, Any], tmp_path: Path, content: str | None
) -> None:
    authorities = tmp_path / "authorities.pem"
    if content is not None:
        authorities.write_text(content)
    with pytest.raises(UnusablePath, match=r"authorities\.pem"):
        async with serving(hub, **files, client_authorities=authorities):
            pass


async def test_a_port_in_use_is_an_error_with_its_number(hub: HubNode) -> None:
    async with serving(hub) as site:
        http = site.web.http.model_copy(update={"port": site.server.port})
        with pytest.raises(WebPortTaken) as raised:
            await Server(http, site.server._config.app).start()  # type: ignore[arg-type]
        assert raised.value.facts["port"] == site.server.port


async def test_a_request_in_progress_is_answered_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semq.web.transport.server.GRACE_S", 0.0)
    begun = asyncio.Event()

    async def never(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    server = Server(HttpSection(port=0), never)
    await server.start()
    async with httpx.AsyncClient(base_url=server.url, **DIRECT) as client:
        asked = asyncio.create_task(client.post("/api/v1/documents", content=b"x"))
        await begun.wait()
        await server.stop()
        answer = await asked
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["retry"]) == (503, "1", True)
    assert answer.headers["connection"] == "close"
