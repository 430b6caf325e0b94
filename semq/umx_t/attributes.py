"""The table of all attributes of a document. Each field of ``Attributes`` and ``Envelope`` has a row.

Seals, interfaces of applications and the headers between nodes are derived from it. The reference and the table of
the protocol are made from it; ``python -m tests.umx_t.pages.attributes`` writes the latter.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from sys import intern
from typing import Any, NamedTuple

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from semq.compiled import compiled
from semq.umx_t.attribute_values import WRITERS, Read, reader_of
from semq.umx_t.envelope import Attributes, Envelope

# The columns:
# name      a header (with @), or a property or argument of AMQP; the row "headers" stands for all headers without @
# field     field of Attributes or Envelope; if applications set it, also the argument of Client.send and msg.submit
# bound     a word of the enum BoundBy
# since     first version of the protocol with the attribute. An attribute of version 2 or later is bound only if its
#           value is not the default, so that older nodes can verify documents that do not use it
# fact      number of a bound value in the canonical form of version 1, which never changes
# read      the reader of the header's value
# write     its writer, if the value needs conversion. "always": the header is written even if it has the default
# amqp      whether the receiver's application gets it by AMQP; "hex" and "int" also name the writer of that header
# python    field of ``semq.app.Document``; HTTP, folders, webhooks and `semq msg receive` show it, too
# inbox     column of the view ``semq_inbox``, which SQL and ``semq.app.sql`` read
# option    option of `semq msg send`
# sql       parameter of semq_send; an application's header without one is a key of the parameter ``headers``
TABLE = """
name             | field            | set by          | bound  | since | fact | read          | write      | amqp | python        | inbox            | option         | sql              | values | meaning
@AppKey          | app_key          | application     | fact   | 1     | 10   | app_key       | joined     | yes  | app_key       | app_key          | --key          | app_key          | `domain/type/subtype/key` | the application's name for the document, repeated in every event; only the key may contain `/`
@SaveFwd         | save_fwd         | application     | fact   | 1     | 6    | save_fwd      | int always | yes  |               |                  | --save-fwd     | save_fwd         | 1, 2, **3** | the delivery class. 1: drop the document if the target is offline; 2: store it; 3: deliver it despite any failure
@Ack2            | ack2             | application     | fact   | 1     | 7    | flag          | int always |      |               |                  | --ack2         | ack2             | 0, **1** | 1: report the receipt to the sending application, and keep the body until then (the default is 0 with `@SaveFwd=1`)
@OrderKey        | order_key        | application     | fact   | 1     | 11   | text 128      |            | yes  | order_key     | order_key        | --order-key    | order_key        | text | documents with the same key reach the receiver's application in the order in which they were accepted; only with `@SaveFwd=3`
@Token           | token            | application     | stays  | 1     |      | text 200      |            |      |               |                  | --token        | token            | text | identifies the document across repeated submissions: a repeat after a lost connection is not accepted as a second document
@ExpiresAt       | expires_at       | application     | fact   | 1     | 15   | moment        |            |      |               |                  | --expires      | expires_at       | ms since 1970 UTC, or an AMQP timestamp | the receiver's node does not record the document after this time (by the nodes' clocks): it ends `REJECTED` (SEMQ-1206), its body is kept
@NotBefore       | not_before       | application     | stays  | 1     |      | moment        |            |      |               |                  | --not-before   |                  | ms since 1970 UTC, or an AMQP timestamp | the document waits at your node and is sent at this time (PROTOCOL.md section 23); it can be cancelled, or released early, until then
@Reliable        | reliable         | application     | fact   | 1     | 8    | flag          | int        |      |               |                  | --reliable     |                  | 0, **1** | 0: best effort, as a datagram (UDP) where one can be sent (PROTOCOL.md section 25); only with `@SaveFwd=1` and `@Ack2=0`
@Encrypt         | encrypt          | application     | seal   | 1     |      | flag          | int        |      |               |                  | --encrypt      | encrypt          | **0**, 1 | 1: seal the document for the target's certificate, so that the hub can neither read nor alter it
@Fixed           | fixed            | application     | fact   | 1     | 9    | flag          | int        | yes  |               |                  | --fixed        |                  | **0**, 1 | 1: fixed sequence: documents with `@Fixed=1` to one address reach the receiver's application in the order in which they were accepted, as if they had one `@OrderKey`; only with `@SaveFwd=3`
priority         | priority         | application     | fact   | 1     | 14   |               |            | yes  | priority      | priority         | --priority     | priority         | **0**–9 (higher values count as 9) | among your documents that wait for the same partner, those with a higher priority go first (PROTOCOL.md section 11)
content_type     | content_type     | application     | fact   | 1     | 12   |               |            | yes  | content_type  | content_type     | --content-type | content_type     | text | the MIME type of the body
content_encoding | content_encoding | application     | fact   | 1     | 13   |               |            | yes  | content_encoding | content_encoding | --content-encoding | content_encoding | text | the encoding of the body
headers          | user_headers     | application     | fact   | 1     | 16   |               |            | yes  | headers       | headers          |                | headers          | names without `@` | headers of your own, which arrive with the types and bytes that your client sent
@Sender          | sender           | sender's node   | fact   | 1     | 3    | text 64       |            |      |               | sender           |                |                  | | the user or application at the sender's node
@SubmittedAt     | submitted_at     | sender's node   | fact   | 1     | 4    | number        | always     | yes  | submitted_at  | submitted_at     |                |                  | | the time of acceptance at the sender's node, in ms since 1970 UTC
@Digest          | digest           | sender's node   | fact   | 1     | 5    | digest        | always     | hex  | digest        | digest           |                |                  | | the SHA-256 of the payload. If the payload is sealed, the digest that is sent between nodes is salted with the session key
@Pieces          | pieces           | sender's node   | fact   | 2     |      | text 200      |            |      |               | document         |                |                  | | the name of the document in pieces to which the message belongs; for a piece also its number (PROTOCOL.md section 24)
routing key      | target           | application     | fact   | 1     | 2    |               |            | yes  | target        | inbox_user       | --to           | target           | | the address of the receiver
message_id       | lk0              | sender's node   | place  | 1     | 1    |               |            | yes  | lk0           | lk0              |                |                  | | the source locator (LK0); its node alone is fact 1
@Sid             | sid              | sender's node   | place  | 1     |      | number        |            |      |               |                  |                |                  | | the position in the stream
@Prev            | prev             | sender's node   | place  | 1     |      | pos           | str        |      |               |                  |                |                  | | the position of the previous message with the same order key
@SessionKey      | session_key      | sender's node   | seal   | 1     |      | repeated 8192 |            |      |               |                  |                |                  | | the wrapped session key
@Alg             | alg              | sender's node   | seal   | 1     |      | repeated 64   |            |      |               |                  |                |                  | | the algorithms of wrap and seal
@KeyId           | key_id           | sender's node   | seal   | 1     |      | repeated 64   |            |      |               |                  |                |                  | | the key of the receiver's certificate that the session key is wrapped for
@Origin          | origin           | sender's node   | seal   | 1     |      | text 400      |            |      |               |                  |                |                  | | the place of the message whose ciphertext is sent again in this one
@Void            | void             | sender's node   | marker | 1     |      | flag          | int        |      |               |                  |                |                  | | 1: a void marker instead of a payload; it has a signature of its own, over source, target, place, order key and AppKey
@Signature       | signature        | sender's node   | no     | 1     |      | text 2048     |            |      |               |                  |                |                  | | the signature itself
@Att             | att              | sender's node   | no     | 1     |      | attempt       | always     |      |               |                  |                |                  | | the number of the attempt; all attempts have the same seal
@Floor           | floor            | sender's node   | no     | 1     |      | number        |            |      |               |                  |                |                  | | the lowest unsettled position when the message was sent; the receiver uses it only if the sender does not sign
app_id           | source           | hub             | no     | 1     |      |               |            |      |               |                  |                |                  | | the transport source: the hub for a stored copy, else the sender's node; compared with the session
@LK1             | lk1              | hub             | no     | 1     |      | lk1           | str        |      |               |                  |                |                  | | the locator of the stored copy, which only its acknowledgements need
@Late            | late             | hub             | no     | 1     |      | flag          | int        |      |               |                  |                |                  | | the stored copy has expired and comes without its payload; the receiver looks at @ExpiresAt itself
@LK0             | ident            | receiver's node | stays  | 1     |      |               |            | yes  |               |                  |                |                  | | the source locator, as in `message_id`
@Source          |                  | receiver's node | stays  | 1     |      |               |            | yes  | source        | source           |                |                  | | the institution that sent the document, and its user: `1.10008/buyer`
@Deliveries      |                  | receiver's node | stays  | 1     |      |               |            | yes  | deliveries    | deliveries       |                |                  | | the number of deliveries to an application, this one included
@OriginProved    | proved           | receiver's node | stays  | 1     |      |               | always     | int  | origin_proved | proved           |                |                  | | 1: a seal or a signature proves the sender
other @ headers  | unknown          | sender's node   | no     | 1     |      |               |            |      |               |                  |                |                  | | attributes of a newer version: nodes pass them on, and neither show nor use them
"""
HEADERS = "headers"

FieldTable = dict[str, Any]  #: headers or properties of AMQP; a value has any type of a field table


class SetBy(Enum):
    """The party that sets an attribute."""

    APPLICATION = "application"
    SENDER = "sender's node"
    HUB = "hub"
    RECEIVER = "receiver's node"


class BoundBy(Enum):
    """The part of seal and signature that binds an attribute, so that an alteration is detected."""

    FACT = "fact"  #: the value is one of the facts (PROTOCOL.md section 27)
    PLACE = "place"  #: the value is part of the place, which is LK0, sid and prev
    SEAL = "seal"  #: the seal opens only with this value; the signature also binds the value
    MARKER = "marker"  #: the signature of the void marker
    STAYS = "stays"  #: none, because the attribute is never sent
    NOT = "no"  #: none


class Attribute(NamedTuple):
    """A row of the table. ``kind``: the first word of column ``read``."""

    name: str
    field: str
    set_by: SetBy
    bound: BoundBy
    since: int
    fact: int
    kind: str
    read: Read | None
    write: Callable[[Any], object] | None
    is_always: bool
    is_for_receiver: bool
    receiver_writer: Callable[[Any], object] | None
    python: str
    inbox: str
    option: str
    sql: str
    values: str
    meaning: str

    @property
    def is_header(self) -> bool:
        """Whether the attribute is a header of its own."""
        return self.name.startswith("@")

    @property
    def is_of_document(self) -> bool:
        """Whether the attribute is a field of ``Attributes``."""
        return self.field in _ATTRIBUTES_DEFAULTS

    @property
    def expression(self) -> str:
        """The field as Python code with the variables ``envelope`` and ``attributes``."""
        return f"attributes.{self.field}" if self.is_of_document else f"envelope.{self.field}"

    @property
    def default(self) -> object:
        """The default of the field; a unique object if there is none."""
        return _DEFAULTS.get(self.field, NODEFAULT)


def _defaults(struct: type[Struct]) -> dict[str, object]:
    return {
        each.name: each.default if each.default_factory is NODEFAULT else each.default_factory()
        for each in fields(struct)
    }


_ATTRIBUTES_DEFAULTS = _defaults(Attributes)
_DEFAULTS = _defaults(Envelope) | _ATTRIBUTES_DEFAULTS


def read_row(line: str) -> Attribute:
    """Read a row of the table. Raises KeyError or ValueError for an unknown word."""
    cells = map(str.strip, line.split("|"))
    name, field, set_by, bound, since, fact, read, write, amqp, python, inbox, option, sql, values, meaning = cells
    words = write.split()
    # The names are interned, because structs compare the names of keyword arguments by identity first.
    return Attribute(
        intern(name), intern(field), SetBy(set_by), BoundBy(bound), int(since), int(fact or 0),
        read.partition(" ")[0], reader_of(read) if read else None,
        next((WRITERS[word] for word in words if word != "always"), None),
        "always" in words, bool(amqp), None if amqp in ("", "yes") else WRITERS[amqp],
        python, inbox, option, sql, values, meaning,
    )  # fmt: skip


ATTRIBUTES = tuple(read_row(line) for line in TABLE.strip().splitlines()[1:])
#: Attributes of applications that are headers, by argument of Client.send and msg.submit.
ARGUMENTS = {each.field: each for each in ATTRIBUTES if each.set_by is SetBy.APPLICATION and each.is_header}
#: fields of Attributes that are AMQP properties
PROPERTIES = tuple(
    each.name
    for each in ATTRIBUTES
    if each.is_of_document and each.set_by is SetBy.APPLICATION and not each.is_header and each.name != HEADERS
)


def submission_headers(arguments: Mapping[str, object]) -> FieldTable:
    """Return the headers for the arguments of a submission.

    Arguments that are None are left out; so are defaults, unless the header is always written.
    """
    headers: FieldTable = {}
    for name, value in arguments.items():
        row = ARGUMENTS.get(name)
        if row is None or value is None or (value == row.default and not row.is_always):
            continue
        headers[row.name] = list(value) if isinstance(value, tuple) else int(value) if value in (True, False) else value
    return headers


def header_writer(rows: Iterable[Attribute], *, for_receiver: bool = False) -> Callable[[Envelope, FieldTable], None]:
    """Return a function that adds these attributes of an envelope to headers.

    Defaults are left out, except of attributes that are always written. ``for_receiver``: the headers are for the
    receiver's application.
    """
    header_rows = [row for row in rows if row.is_header and row.field in _DEFAULTS]
    names: dict[str, object] = {}
    lines = ["attributes = envelope.attributes"]
    for number, row in enumerate(header_rows):
        convert = (row.receiver_writer if for_receiver else None) or row.write
        names |= {f"default{number}": row.default, f"convert{number}": convert}
        value = "value" if convert is None else "int(value)" if convert is int else f"convert{number}(value)"
        assignment = f"headers[{row.name!r}] = {value}"
        is_set = "value" if row.default in (0, "", b"", None) else f"value != default{number}"
        lines += [f"value = {row.expression}", assignment if row.is_always else f"if {is_set}: {assignment}"]
    write: Callable[[Envelope, FieldTable], None] = compiled("attributes", "envelope, headers", lines, names)
    return write


def value_reader(rows: Iterable[Attribute]) -> Callable[[Envelope], tuple[object, ...]]:
    """Return a function that returns the values of these attributes of an envelope."""
    body = ["attributes = envelope.attributes", f"return ({''.join(f'{row.expression}, ' for row in rows)})"]
    values: Callable[[Envelope], tuple[object, ...]] = compiled("attributes", "envelope", body, {})
    return values
