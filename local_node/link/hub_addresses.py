"""The addresses of the hub: ``hub.url`` and ``hub.more_urls``, tried in turn.

All of them lead to one hub: to its standby, to its other instances, or through another network to the same process.
"""

import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from semq.config.sections import HubSection
from semq.service.credentials.identity import must_be_hub
from semq.transport.dialer import PRODUCT, DialConfig
from semq.umx_t.address import Address

# Time limit for a connection to a partner, or to a hub with several addresses: a machine that is down gives no answer.
# A refusal must arrive within this time; the peer sends it after ``listener.PAUSE_S``, two seconds.
CONNECT_S = 5.0


def hub_dial_configs(
    hub: HubSection, address: Address, tls: ssl.SSLContext | None, virtual_host: str
) -> list[DialConfig]:
    """Return how to dial each address of the hub. With ``tls``, the certificate of the peer must be a hub's."""
    configs = [_dial_config(hub, url, address, tls, virtual_host) for url in (hub.url, *hub.more_urls)]
    return [replace(config, connect_s=CONNECT_S) for config in configs] if len(configs) > 1 else configs


def _dial_config(
    hub: HubSection, url: str, address: Address, tls: ssl.SSLContext | None, virtual_host: str
) -> DialConfig:
    parts = urlsplit(url)
    return DialConfig(
        product=PRODUCT,
        host=parts.hostname or "127.0.0.1",
        port=parts.port or (5671 if tls else 5672),
        virtual_host=virtual_host,
        user=str(address),
        # With TLS the certificate identifies this node.
        password=hub.password.get_secret_value() if hub.password and tls is None else None,
        tls=tls,
        check=must_be_hub if tls else lambda _: None,
    )


class DialAddresses(Struct):
    """The addresses of a hub or of a partner, and which one is in use."""

    configs: list[DialConfig]
    _place: int = 0

    @property
    def current(self) -> DialConfig:
        return self.configs[self._place]

    def advance(self) -> None:
        self._place = (self._place + 1) % len(self.configs)

    def change(self, change: Callable[[DialConfig], DialConfig]) -> None:
        self.configs = [change(config) for config in self.configs]
