"""Documents that are checked and not committed yet: they count for the quota of their target."""

from collections.abc import Sequence

from semq.engine.ports import Submission
from semq.engine.sender.groups import messages


class DocumentsUnderWay:
    """The number of messages by target node."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, dest: str) -> int:
        return self._counts.get(dest, 0)

    def begin(self, submission: Submission) -> None:
        submission.is_under_way = True
        for message in messages([submission]):
            dest = str(message.target.node)
            self._counts[dest] = self._counts.get(dest, 0) + 1

    def end(self, submissions: Sequence[Submission]) -> None:
        """Note that documents are rows now, or are refused."""
        for submission in submissions:
            if submission.is_under_way:
                submission.is_under_way = False
                for message in messages([submission]):
                    dest = str(message.target.node)
                    self._counts[dest] -= 1
                    if not self._counts[dest]:
                        del self._counts[dest]
