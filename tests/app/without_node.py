"""A channel that has ended, for tests without a node."""

from semq.transport.client_channel import ClientChannel


def closed_channel() -> ClientChannel:
    """Return a channel whose connection has ended."""
    channel = ClientChannel.__new__(ClientChannel)
    channel.is_open = False
    return channel
