"""Identifiers of the events that the latest streams of each queue have sent.

With them, a client that reconnects does not get events again that it has received.
"""

from collections import OrderedDict, deque
from itertools import islice

BEHIND = 1000  # events remembered for each stream; they stay unacknowledged at the node
QUEUES_MAX, STREAMS_MAX = 256, 4  # queues that are remembered, and streams of each queue


class SentEvents:
    """The identifiers that this process remembers."""

    def __init__(self) -> None:
        self._streams: OrderedDict[str, deque[deque[str]]] = OrderedDict()

    def begin(self, queue: str) -> deque[str]:
        """Return a list, to which a new stream appends the identifiers of events that it sends."""
        streams = self._streams.pop(queue, None) or deque(maxlen=STREAMS_MAX)
        self._streams[queue] = streams
        if len(self._streams) > QUEUES_MAX:
            self._streams.popitem(last=False)
        streams.append(deque(maxlen=BEHIND))
        return streams[-1]

    def sent_up_to(self, queue: str, last: str) -> set[str]:
        """Return the identifiers up to ``last`` of the stream that has sent ``last``; empty if none has."""
        for sent in self._streams.get(queue, ()):
            if last in sent:
                return set(islice(sent, sent.index(last) + 1))
        return set()
