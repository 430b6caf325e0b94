"""Errors of datagrams."""

from semq.errors import Misconfigured


class DatagramPortTaken(Misconfigured):
    """The UDP port of the datagrams cannot be used."""

    code = "SEMQ-4914"
    remedy = "Set datagrams.host and datagrams.port to an address of this machine that no other program uses."
