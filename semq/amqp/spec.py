"""AMQP 0-9-1 as a table: classes, methods, arguments, senders, replies, and the basic properties.

A row of ``GRID`` has method, id, sender (C client, S server), replies (a method with replies is synchronous), and on
the following lines the arguments in wire order. ``-`` is a reserved argument: sent empty, ignored when received.
Methods with a star carry content. Rows beyond the specification are RabbitMQ's extensions.
"""

from typing import NamedTuple

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_MIN_SIZE = 4096
FRAME_OVERHEAD = 8  # type, channel and size before the payload, and the end byte after it
REPLY_SUCCESS = 200

WIRE_TYPE_NAMES = frozenset(["bit", "octet", "short", "long", "longlong", "shortstr", "longstr", "timestamp", "table"])

GRID = """
connection.start           10.10   S   start-ok
    version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr
connection.start-ok        10.11   C
    client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.secure          10.20   S   secure-ok
    challenge:longstr
connection.secure-ok       10.21   C
    response:longstr
connection.tune            10.30   S   tune-ok
    channel_max:short frame_max:long heartbeat:short
connection.tune-ok         10.31   C
    channel_max:short frame_max:long heartbeat:short
connection.open            10.40   C   open-ok
    virtual_host:shortstr -:shortstr -:bit
connection.open-ok         10.41   S
    -:shortstr
connection.close           10.50   CS  close-ok
    reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok        10.51   CS
connection.blocked         10.60   S
    reason:shortstr
connection.unblocked       10.61   S
connection.update-secret   10.70   C   update-secret-ok
    new_secret:longstr reason:shortstr
connection.update-secret-ok 10.71  S

channel.open               20.10   C   open-ok
    -:shortstr
channel.open-ok            20.11   S
    -:longstr
channel.flow               20.20   CS  flow-ok
    active:bit
channel.flow-ok            20.21   CS
    active:bit
channel.close              20.40   CS  close-ok
    reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok           20.41   CS

exchange.declare           40.10   C   declare-ok
    -:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit no_wait:bit
    arguments:table
exchange.declare-ok        40.11   S
exchange.delete            40.20   C   delete-ok
    -:short exchange:shortstr if_unused:bit no_wait:bit
exchange.delete-ok         40.21   S
exchange.bind              40.30   C   bind-ok
    -:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table
exchange.bind-ok           40.31   S
exchange.unbind            40.40   C   unbind-ok
    -:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table
exchange.unbind-ok         40.51   S

queue.declare              50.10   C   declare-ok
    -:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit no_wait:bit arguments:table
queue.declare-ok           50.11   S
    queue:shortstr message_count:long consumer_count:long
queue.bind                 50.20   C   bind-ok
    -:short queue:shortstr exchange:shortstr routing_key:shortstr no_wait:bit arguments:table
queue.bind-ok              50.21   S
queue.purge                50.30   C   purge-ok
    -:short queue:shortstr no_wait:bit
queue.purge-ok             50.31   S
    message_count:long
queue.delete               50.40   C   delete-ok
    -:short queue:shortstr if_unused:bit if_empty:bit no_wait:bit
queue.delete-ok            50.41   S
    message_count:long
queue.unbind               50.50   C   unbind-ok
    -:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok            50.51   S

basic.qos                  60.10   C   qos-ok
    prefetch_size:long prefetch_count:short global_:bit
basic.qos-ok               60.11   S
basic.consume              60.20   C   consume-ok
    -:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit no_wait:bit arguments:table
basic.consume-ok           60.21   S
    consumer_tag:shortstr
basic.cancel               60.30   CS  cancel-ok
    consumer_tag:shortstr no_wait:bit
basic.cancel-ok            60.31   CS
    consumer_tag:shortstr
basic.publish*             60.40   C
    -:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
basic.return*              60.50   S
    reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver*             60.60   S
    consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
basic.get                  60.70   C   get-ok get-empty
    -:short queue:shortstr no_ack:bit
basic.get-ok*              60.71   S
    delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
basic.get-empty            60.72   S
    -:shortstr
basic.ack                  60.80   CS
    delivery_tag:longlong multiple:bit
basic.reject               60.90   C
    delivery_tag:longlong requeue:bit
basic.recover-async        60.100  C
    requeue:bit
basic.recover              60.110  C   recover-ok
    requeue:bit
basic.recover-ok           60.111  S
basic.nack                 60.120  CS
    delivery_tag:longlong multiple:bit requeue:bit

confirm.select             85.10   C   select-ok
    no_wait:bit
confirm.select-ok          85.11   S

tx.select                  90.10   C   select-ok
tx.select-ok               90.11   S
tx.commit                  90.20   C   commit-ok
tx.commit-ok               90.21   S
tx.rollback                90.30   C   rollback-ok
tx.rollback-ok             90.31   S
"""

# The properties of class basic, in the order of their flags from bit 15 down.
PROPERTIES: tuple[tuple[str, str], ...] = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "timestamp"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)


class Argument(NamedTuple):
    """One argument of a method: its name ('' if reserved) and its wire type."""

    name: str
    kind: str


class MethodRow(NamedTuple):
    """One method: a row of ``GRID``."""

    name: str  # "queue.declare-ok"
    class_id: int
    method_id: int
    senders: str  # "C", "S" or "CS"
    replies: tuple[str, ...]  # full names; a method with replies is synchronous
    content: bool  # whether a content header and a body follow
    arguments: tuple[Argument, ...]


def _argument(word: str) -> Argument:
    name, _, kind = word.partition(":")
    if kind not in WIRE_TYPE_NAMES:
        raise ValueError(f"unknown type of argument: {word}")
    return Argument("" if name == "-" else name, kind)


def _row(lines: list[str]) -> MethodRow:
    (title, number, senders, *replies), words = lines[0].split(), " ".join(lines[1:]).split()
    class_id, _, method_id = number.partition(".")
    if senders not in {"C", "S", "CS"}:
        raise ValueError(f"unknown sender: {lines[0]}")
    class_name = title.partition(".")[0]
    return MethodRow(
        title.rstrip("*"),
        int(class_id),
        int(method_id),
        senders,
        tuple(f"{class_name}.{reply}" for reply in replies),
        title.endswith("*"),
        tuple(map(_argument, words)),
    )


def read(grid: str) -> dict[str, MethodRow]:
    """Return the rows of a grid, keyed by method name. Raises ValueError for an unknown sender, wire type or reply."""
    groups: list[list[str]] = []
    for line in filter(str.strip, grid.splitlines()):
        if line[0].isspace():
            groups[-1].append(line)
        else:
            groups.append([line])
    rows = {row.name: row for row in map(_row, groups)}
    for row in rows.values():
        if missing := [reply for reply in row.replies if reply not in rows]:
            raise ValueError(f"{row.name} is answered by unknown methods: {missing}")
    return rows


ROWS: dict[str, MethodRow] = read(GRID)
CLASS_IDS: dict[str, int] = {row.name.partition(".")[0]: row.class_id for row in ROWS.values()}
BASIC = CLASS_IDS["basic"]
CONNECTION = CLASS_IDS["connection"]
