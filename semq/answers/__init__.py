"""Answers of operations: the base class of their structs, which are beside the operations that return them.

| module     | answers                                                            |
|------------|--------------------------------------------------------------------|
| `status`   | ``node.status`` and ``node.health``, whose parts all rooms make    |
| `messages` | messages as rows, their traces, pages and counts                   |
| `acts`     | arguments of acts in the audit log, as texts                       |
"""

import msgspec


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The base class of all answer structs. Fields that are ``UNSET`` are absent in the answer."""
