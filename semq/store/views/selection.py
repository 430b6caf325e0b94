"""The selection of documents; arguments of operations, options of commands and filters of pages are derived from it."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from semq.umx_t.attribute_values import MOMENT_MAX

NAME_MAX = 600  # characters; an AppKey, the longest kind of name, has at most 515
ADDRESS_MAX = 100  # characters
TEXT_MAX = 255  # characters of a short text
ROWS_MAX = 1000  # rows in one answer
NUMBER_MAX = (1 << 63) - 1
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX)]
Institution: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=ADDRESS_MAX, description="Institution: its number, or TYPE.NUMBER.")
]
DataType: TypeAlias = Annotated[str, Meta(max_length=NAME_MAX, description="Data type of the AppKey.")]
Key: TypeAlias = Annotated[str, Meta(max_length=NAME_MAX, description="Beginning of the key of the AppKey.")]
Moment: TypeAlias = Annotated[int, Meta(ge=0, le=MOMENT_MAX, description="Time in milliseconds since 1970 UTC.")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=ROWS_MAX, description="Number of rows, at most.")]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Order: TypeAlias = Annotated[Literal["newest", "oldest"], Meta(description="The order of the documents.")]
# Fields of ``Search``: the row of each queue, or the line of the ledger, after which a page begins
PLACE = ("outbound", "inbound", "submitted", "line")
Side = Literal["all", "outbound", "inbound", "submitted"]


class MessageFilter(Struct, frozen=True, kw_only=True):
    """The documents to list. A condition that is None or empty fits every document."""

    side: Annotated[
        Side, Meta(description="Queue: sent documents and submissions, received documents, or submissions only.")
    ] = "all"
    state: Annotated[Text | None, Meta(description="Status or outcome, for instance SS_SENT, DELIVERED, NEW.")] = None
    partner: Annotated[
        Annotated[str, Meta(max_length=ADDRESS_MAX)] | None,
        Meta(description="The institution at the other end; at a hub the target."),
    ] = None
    source: Annotated[
        Annotated[str, Meta(max_length=ADDRESS_MAX)] | None,
        Meta(description="At a hub: the institution that sent the document."),
    ] = None
    type: DataType | None = None
    key: Key | None = None
    code: Annotated[Text | None, Meta(description="Error code of the reason.")] = None
    mark: Annotated[Literal["held", "parked", "void"] | None, Meta(description="Mark of a sent document.")] = None
    since_ms: Annotated[Moment | None, Meta(description="Earliest time, in milliseconds since 1970 UTC.")] = None
    until_ms: Annotated[
        Moment | None, Meta(description="Exclusive end of the period, in milliseconds since 1970 UTC.")
    ] = None
    pieces: Annotated[bool, Meta(description="Also the pieces of documents in pieces.")] = False
    ended: Annotated[
        bool, Meta(description="Documents that have ended, from the ledger, by the time of their end.")
    ] = False


class Search(MessageFilter, frozen=True, kw_only=True):
    """The selection, order and place of a page."""

    order: Order = "newest"
    outbound: Annotated[Number | None, Meta(description="``next.outbound`` of the page before.")] = None
    inbound: Annotated[Number | None, Meta(description="``next.inbound`` of the page before.")] = None
    submitted: Annotated[Number | None, Meta(description="``next.submitted`` of the page before.")] = None
    line: Annotated[Number | None, Meta(description="``next.line`` of the page before, of ended documents.")] = None
    limit: Limit = 50

    @property
    def is_descending(self) -> bool:
        """Whether the newest documents come first."""
        return self.order == "newest"
