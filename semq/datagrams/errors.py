"""Errors of datagrams."""

from semq.errors import Misconfigured


class DatagramAddressUnusable(Misconfigured):
    """An address for datagrams, of this machine or of a peer, cannot be used."""

    code = "SEMQ-4914"
    remedy = (
        "For this machine, set datagrams.host and datagrams.port to an address of it that no other program uses. For a"
        " peer, set datagrams.advertised_host there to a name that this machine can resolve, or to an address."
    )
