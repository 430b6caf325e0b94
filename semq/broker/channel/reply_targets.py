"""The channels that wait for direct replies (RabbitMQ's ``amq.rabbitmq.reply-to``). Owned by ``server``."""

from semq.broker.channel.ports import ConnectedChannel
from semq.broker.generated_names import reply_suffix
from semq.broker.vhost import VirtualHost
from semq.clock import Clock


class ReplyTargets:
    """The channels that wait for direct replies, keyed by their addresses without ``amq.rabbitmq.reply-to.``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._channels: dict[str, ConnectedChannel] = {}
        self._addresses: dict[ConnectedChannel, str] = {}

    def add(self, channel: ConnectedChannel) -> None:
        address = reply_suffix(self._clock)
        self._channels[address] = channel
        self._addresses[channel] = address

    def remove(self, channel: ConnectedChannel) -> None:
        address = self._addresses.pop(channel, None)
        if address is not None:
            del self._channels[address]

    def address(self, channel: ConnectedChannel) -> str | None:
        return self._addresses.get(channel)

    def find(self, vhost: VirtualHost, address: str) -> ConnectedChannel | None:
        channel = self._channels.get(address)
        return channel if channel is not None and channel.session.vhost is vhost else None
