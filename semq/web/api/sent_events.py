"""The identifiers of the events that the latest streams have sent, by queue: a client that continues a stream does not
get these events again.
"""

from collections import OrderedDict, deque
from itertools import islice

BEHIND = 1000  # number of sent events that are remembered for each stream
QUEUES_KNOWN, STREAMS_KNOWN = 256, 4


class SentEvents:
    """The memory of one process."""

    def __init__(self) -> None:
        self._streams: OrderedDict[str, deque[deque[str]]] = OrderedDict()

    def begin(self, queue: str) -> deque[str]:
        """Return the list of a new stream, which appends what it sends."""
        streams = self._streams.pop(queue, None) or deque(maxlen=STREAMS_KNOWN)
        self._streams[queue] = streams
        if len(self._streams) > QUEUES_KNOWN:
            self._streams.popitem(last=False)
        streams.append(deque(maxlen=BEHIND))
        return streams[-1]

    def until(self, queue: str, last: str) -> set[str]:
        """Return the events that a stream sent up to the one that its client received last; nothing if that one is not
        remembered.
        """
        for sent in self._streams.get(queue, ()):
            if last in sent:
                return set(islice(sent, sent.index(last) + 1))
        return set()
