"""The channels that wait for direct replies (RabbitMQ's ``amq.rabbitmq.reply-to``)."""

from semq.broker.channel.ports import ConnectedChannel
from semq.broker.generated_names import reply_address
from semq.broker.queues.message import Message
from semq.broker.vhost import VirtualHost
from semq.clock import Clock


class ReplyTargets:
    """The channels that wait for direct replies, by their addresses."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._channels: dict[str, ConnectedChannel] = {}
        self._addresses: dict[ConnectedChannel, str] = {}

    def add(self, channel: ConnectedChannel) -> None:
        address = reply_address(self._clock)
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

    def send(self, vhost: VirtualHost, message: Message) -> bool:
        """Send a reply to the channel that its routing key names; return whether the virtual host has that channel.

        A reply that the client does not read in time is lost, because replies have no queue.
        """
        target = self.find(vhost, message.routing_key)
        if target is None or target.reply_consumer is None:
            return False
        if target.session.is_writable and target.feeder is None:
            target.deliver(target.reply_consumer, None, "", message.routing_key, message.header, message.body, False)
        return True
