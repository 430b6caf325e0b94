"""The output of a link that its peer has not read."""

from semq.transport.link import SocketLink


def waiting_output(link: SocketLink) -> int:
    """Return the bytes that the link has produced and the network has not accepted."""
    return link.machine.output_size + (0 if link.is_lost else link._transport.get_write_buffer_size())
