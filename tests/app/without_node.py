"""A channel that has ended, for tests without a node."""

from semq.transport.client_channel import ClientChannel


def closed_channel() -> ClientChannel:
    channel = ClientChannel.__new__(ClientChannel)
    channel.is_open = False
    return channel
