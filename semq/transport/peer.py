"""The peer of a socket, as known to the transport."""

from asyncio import BaseTransport
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

NETWORK_BITS = 64  # of an IPv6 address: one client usually has all addresses of such a network


class PeerInfo(Struct, frozen=True):
    """Address of the peer, and its certificate if the peer has presented one and TLS has verified it.

    ``common_name`` is the name in the certificate's subject; ``certificate`` is the whole certificate in DER.
    """

    host: str
    port: int
    common_name: str | None = None
    certificate: bytes | None = None
    tls: str | None = None  #: version of TLS; None without TLS

    @property
    def is_loopback(self) -> bool:
        """Whether the peer is on this machine: a loopback address or a Unix socket."""
        try:
            address = ip_address(self.host)
        except ValueError:
            return self.host == ""
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Return the name by which the sockets and attempts of an address are counted.

    It is the network for IPv6, and the address itself for IPv4 and for a Unix socket, whose address is empty.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return f"{IPv6Address(int(ip) >> NETWORK_BITS << NETWORK_BITS)}/{NETWORK_BITS}"


def peer_of(transport: BaseTransport) -> PeerInfo:
    """Return the peer of an asyncio transport. For a Unix socket, the host is empty and the port is 0."""
    address = transport.get_extra_info("peername")
    host, port = (str(address[0]), int(address[1])) if isinstance(address, tuple) else ("", 0)
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert() if tls is not None else None
    version = tls.version() if tls is not None else None
    if not certificate:
        # A context that does not verify certificates returns no fields: the certificate is not authenticated.
        return PeerInfo(host, port, tls=version)
    names = [value for row in certificate.get("subject", ()) for name, value in row if name == "commonName"]
    return PeerInfo(host, port, names[0] if names else None, tls.getpeercert(binary_form=True), version)
