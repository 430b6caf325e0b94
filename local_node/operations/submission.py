"""Operation ``msg.submit``: a document in one request."""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.engine.frames import check_carried, split_given
from semq.engine.ports import Accepted, Submission
from semq.service.admin import committed
from semq.service.operations.arguments import INT64_MAX, Arguments, Text
from semq.service.operations.operation import Caller, act
from semq.umx_t.address import parse_address
from semq.umx_t.attributes import ARGUMENTS, PROPERTIES, Attribute, submission_headers
from semq.umx_t.headers import TRANSPORT_READERS, read_submission
from semq.umx_t.short_name import short_name
from semq.umx_t.status import SaveFwd

CHARACTERS_MAX = 4096  # the limits of attributes are lower, and have errors of their own
AttributeText: TypeAlias = Annotated[str, Meta(max_length=CHARACTERS_MAX)]
# Not a tuple of four: msgspec 0.22 crashes in the garbage collector on a union with such a tuple.
KeyParts: TypeAlias = Annotated[tuple[AttributeText, ...], Meta(min_length=4, max_length=4)]
# Kind of the attribute | type of the argument
TYPES: dict[str, Any] = {
    "flag": bool,
    "save_fwd": SaveFwd,
    "moment": Annotated[int, Meta(ge=0, le=INT64_MAX)],
    "app_key": AttributeText | KeyParts,
    "text": AttributeText,
}


class DocumentArguments(Arguments, frozen=True, kw_only=True):
    """A document; ``SubmitDocument`` adds its attributes (PROTOCOL.md section 22)."""

    target: Annotated[
        str, Meta(min_length=1, max_length=200, description="Receiver: institution, or institution/user.")
    ]
    body_base64: Annotated[bytes, Meta(description="Payload.")] = b""
    content_type: Annotated[Text | None, Meta(description="MIME type.")] = None
    content_encoding: Annotated[Text | None, Meta(description="Encoding of the payload, for instance gzip.")] = None
    priority: Annotated[
        Annotated[int, Meta(ge=0, le=255)] | None, Meta(description="0 to 9, highest first; higher values count as 9.")
    ] = None
    headers: Annotated[dict[str, Any] | None, Meta(description="Further headers, carried unchanged.")] = None
    sender: Annotated[Text, Meta(description="User or application of this institution.")] = ""


def _argument(row: Attribute) -> tuple[str, object, None]:
    return row.field, Annotated[TYPES[row.kind] | None, Meta(description=f"{row.name}: {row.meaning}.")], None


SubmitDocument: type[DocumentArguments] = msgspec.defstruct(  # type: ignore[assignment]  # bases tell its type
    "SubmitDocument",
    [_argument(row) for row in ARGUMENTS.values()],
    bases=(DocumentArguments,),
    module=__name__,
    frozen=True,
    kw_only=True,
)


class AcceptedDocument(OperationAnswer, frozen=True, kw_only=True):
    """An accepted document."""

    name: str | None  #: short name
    lk0: str
    repeated: bool  #: its @Token was used before: this is the document accepted then
    digest: str
    not_before: int | UnsetType = UNSET  #: of a scheduled document: milliseconds since 1970 UTC
    members: int | UnsetType = UNSET  #: of a document to a group: its receivers


class SubmitOperation:
    """The handler."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def submit(self, arguments: DocumentArguments, caller: Caller) -> AcceptedDocument:
        """Accept a document and answer when it is committed."""
        given = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
        properties = {name: given[name] for name in PROPERTIES}
        headers, own_headers = split_given(arguments.headers or {})
        attributes, handling = read_submission(headers | submission_headers(given), properties, own_headers)
        check_carried(attributes)
        target, body = parse_address(arguments.target), arguments.body_base64
        sender = TRANSPORT_READERS["@Sender"][1]("sender", arguments.sender)

        def post(done: Callable[[Accepted], None], failed: Callable[[Exception], None]) -> None:
            submission = Submission(target, attributes, body, done, failed, sender=sender, **handling._asdict())
            self._node.engine.submit([submission])

        accepted = await committed(post)
        return AcceptedDocument(
            name=short_name(str(accepted.lk0)),
            lk0=str(accepted.lk0),
            repeated=accepted.repeated,
            digest=accepted.digest.hex(),
            not_before=accepted.not_before or UNSET,
            members=accepted.members or UNSET,
        )


SUBMISSION = (
    act(
        "msg.submit",
        AccessRole.OPERATOR,
        SubmitDocument,
        SubmitOperation.submit,
        "programs: the command `semq msg send` publishes instead",
    ),
)
