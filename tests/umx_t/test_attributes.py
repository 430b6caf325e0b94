"""The table of attributes, and what is derived from it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import fields, replace

from local_node.doors.inbox import document_message
from semq.amqp.content import Properties
from semq.amqp.events import Delivered
from semq.app import sql
from semq.app.client import Client
from semq.app.requests import Requests
from semq.app.values import DESCRIBED, Document, read_document
from semq.cli.messages import message as msg
from semq.engine.ports import Delivery
from semq.umx_t.app_key import AppKey
from semq.umx_t.attributes import (
    ARGUMENTS,
    ATTRIBUTES,
    HEADERS,
    PROPERTIES,
    Attribute,
    BoundBy,
    SetBy,
    header_writer,
    read_row,
    submission_headers,
    value_reader,
)
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.headers import read_envelope, read_submission
from semq.umx_t.status import SaveFwd
from tests.app.without_node import closed_channel
from tests.umx_t.pages.attributes import PAGES, ROOT, printed
from tests.umx_t.samples.altered import CARRIED, altered
from tests.umx_t.test_headers import PEER

OF_APPLICATIONS = {row.field: row for row in ATTRIBUTES if row.set_by is SetBy.APPLICATION}
OF_RECEIVERS = {"redelivered"}  # fields of Document that no attribute carries
ENVELOPE = read_envelope(PEER, {"@Sid": 1}, "56001")
ROW = "@New | fixed | application | fact | 2 | | flag | int always | | | | --new | headers | 0, 1 | something new"


def test_every_field_has_one_row() -> None:
    documents = [row.field for row in ATTRIBUTES if row.is_of_document]
    assert sorted(documents) == sorted(each.name for each in fields(Attributes))
    of_envelope = [row.field for row in ATTRIBUTES if row.field and not row.is_of_document]
    envelope = {each.name for each in fields(Envelope)} - {"attributes"}
    assert envelope <= set(of_envelope)
    # Two attributes of a submission, and a property of the envelope.
    assert set(of_envelope) - envelope == {"token", "not_before", "ident"}
    assert len({row.name for row in ATTRIBUTES}) == len(ATTRIBUTES)


def test_the_facts_of_version_1_are_numbered_1_to_16_without_gaps() -> None:
    facts = [row.fact for row in ATTRIBUTES if row.fact]
    assert sorted(facts) == list(range(1, 17))
    assert all(row.since > 1 for row in ATTRIBUTES if row.bound.value == "fact" and not row.fact)


@pytest.mark.parametrize("word", ["application", "fact", "flag", "int"])
def test_an_unknown_word_is_refused_at_import(word: str) -> None:
    assert read_row(ROW).is_always
    with pytest.raises((KeyError, ValueError)):
        read_row(ROW.replace(word, "nonsense"))


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_show_the_table(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert printed(page, text) == text, "print it: ./run python -m tests.umx_t.pages.attributes"


def test_every_client_accepts_every_attribute_of_applications() -> None:
    client = signature(Client.send).parameters
    assert {*ARGUMENTS, *PROPERTIES, "target", "headers"} <= set(client)
    in_sql = {row.sql for row in ATTRIBUTES if row.sql}
    by_header = {"not_before"}  # ``semq_send`` has no parameter for it
    assert in_sql == set(signature(sql.send).parameters) - {"connection", "body"} - by_header
    assert [row.field for row in ATTRIBUTES if row.sql and row.sql not in (row.field, HEADERS)] == []
    options = {f"--{name.replace('_', '-')}" for name in signature(msg.send).parameters}
    assert {row.option for row in ATTRIBUTES if row.option} <= options


def test_defaults_of_the_clients_are_those_of_the_node() -> None:
    for call in (Client.send, sql.send):
        for name, parameter in signature(call).parameters.items():
            row = OF_APPLICATIONS.get(name)
            if row is not None and row.is_of_document and parameter.default not in (None, ""):
                assert parameter.default == row.default, name


async def test_the_client_hands_over_every_attribute_of_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Properties] = []

    async def ask(_: Requests, __: str, target: str, properties: Properties, *more: Any) -> dict[str, Any]:
        published.append(properties)
        return {"lk0": target}

    monkeypatch.setattr(Requests, "ask", ask)
    arguments = {name: submitted(row) for name, row in OF_APPLICATIONS.items() if name in (*ARGUMENTS, *PROPERTIES)}
    sent = await Client("amqp://localhost").send("56001", b"", headers={"own": 1}, **arguments)
    assert sent.lk0 == "56001"
    [properties] = published
    assert properties.headers == submission_headers(arguments) | {"own": 1}
    assert properties.headers.keys() == {row.name for row in ARGUMENTS.values()} | {"own"}
    assert {name: getattr(properties, name) for name in PROPERTIES} == {name: arguments[name] for name in PROPERTIES}


def test_the_call_for_sql_hands_over_every_parameter() -> None:
    executed: list[Any] = []

    def execute(statement: object, values: Mapping[str, Any]) -> Any:
        executed.append((str(statement), values))
        return SimpleNamespace(scalar_one=lambda: 1)

    connection: Any = SimpleNamespace(execute=execute)
    arguments = {row.sql: submitted(row) for row in OF_APPLICATIONS.values() if row.sql not in ("", "target")}
    arguments["expires_at"] = datetime.now(UTC)
    sql.send(connection, "0", b"")
    sql.send(connection, "56001", b"", not_before=datetime.now(UTC), **(arguments | {"headers": {"own": 1}}))
    (_, defaults), (statement, values) = executed
    assert {name for name in values if values[name] != defaults[name]} == {row.sql for row in ATTRIBUTES if row.sql}
    assert [name for name in values if f":{name}" not in statement] == []
    assert "@NotBefore" in values["headers"]


def test_the_receiver_gets_every_attribute_shown_by_amqp_or_python() -> None:
    assert {row.python for row in ATTRIBUTES if row.python} == {*DESCRIBED} - OF_RECEIVERS
    plain, plain_document = received(ENVELOPE)
    others = {row.name: received(altered(ENVELOPE, row)) for row in CARRIED}
    others |= {"@LK0": others["message_id"], "@Source": received(replace(ENVELOPE, sender="buyer"))}
    others |= {
        "@Deliveries": received(ENVELOPE, deliveries=2),
        "@OriginProved": received(replace(ENVELOPE, proved=True)),
    }
    for row in ATTRIBUTES:
        if row.is_for_receiver or row.python:
            message, document = others[row.name]
            assert message != plain, row.name
            assert not row.python or getattr(document, row.python) != getattr(plain_document, row.python), row.name


def test_the_receiver_by_sql_reads_every_column_that_documents_have() -> None:
    """The columns are those of ``inbox`` in ATTRIBUTES; ``tests/app/test_sql.py`` compares them with the view."""
    values: dict[str, Any] = {"bref": 1, "payload": b"", "digest": b"x", "pieces": None, "headers": {"own": 1}}
    found = defaultdict[str, Any](lambda: "x", values | {"deliveries": 4})
    connection: Any = SimpleNamespace(execute=lambda *_: SimpleNamespace(mappings=lambda: [found]))
    [(_, document)] = sql.receive(connection)
    defaults = {each.name: each.default for each in dataclass_fields(Document)}
    missing = [row.name for row in ATTRIBUTES if row.python and row.inbox
               and getattr(document, row.python) == defaults[row.python]]  # fmt: skip
    assert missing == []


def test_the_guide_for_sql_has_every_parameter_key_and_column() -> None:
    guide = (ROOT / "docs" / "applications" / "sql.md").read_text("utf-8")
    names = {row.sql or row.name for row in OF_APPLICATIONS.values()}
    names |= {row.inbox for row in ATTRIBUTES if row.inbox}
    assert [name for name in sorted(names) if f"`{name}`" not in guide] == []


def submitted(row: Attribute) -> Any:
    """Return a value that is not the default, as an application submits it."""
    match row.kind:
        case "flag":
            return not row.default
        case "save_fwd":
            return 2
        case "moment":
            return 5
        case "app_key":
            return AppKey("a", "b", "c", "d")
        case "text":
            return "x"
        case "":
            return 4 if row.default == 0 else "x"
    raise AssertionError(f"No value is known for {row}.")


def received(envelope: Envelope, deliveries: int = 1) -> tuple[Any, Document]:
    """Return the message that the receiver's application gets by AMQP, and the document in Python."""
    header = document_message(Delivery(1, envelope, b"", False, deliveries)).header
    target = str(envelope.target)
    message = Delivered(1, "tag", 7, False, "semq", target, header, b"")
    return (target, header.properties), read_document(closed_channel(), message)


def test_arguments_of_a_submission_become_headers() -> None:
    arguments: dict[str, Any] = {
        "save_fwd": 3, "ack2": True, "reliable": True, "encrypt": True, "app_key": AppKey("a", "b", "c", "d"),
        "order_key": None, "token": "t", "expires_at": 0, "priority": 4, "target": "56001",
    }  # fmt: skip
    headers = submission_headers(arguments)
    assert headers == {"@SaveFwd": 3, "@Ack2": 1, "@Encrypt": 1, "@AppKey": ["a", "b", "c", "d"], "@Token": "t"}
    assert read_submission(headers, {})[0] == Attributes(encrypt=True, app_key=AppKey("a", "b", "c", "d"))


def test_writers_and_value_readers_follow_the_rows() -> None:
    envelope = read_envelope(PEER, {"@Sid": 1}, "56001")
    headers: dict[str, Any] = {}
    header_writer([read_row(ROW)])(envelope, headers)
    assert headers == {"@New": 0}
    for row in ATTRIBUTES:
        if row.is_header and row.bound is not BoundBy.STAYS:
            headers = {}
            altered_envelope = altered(envelope, row)
            header_writer([row])(altered_envelope, headers)
            assert list(headers) == [row.name]
            assert value_reader([row])(altered_envelope) != value_reader([row])(envelope)


def test_the_receivers_application_gets_the_digest_as_text_and_the_proof_as_a_number() -> None:
    envelope = replace(read_envelope(PEER, {"@Sid": 1}, "56001"), digest=bytes(32), proved=True)
    headers: dict[str, Any] = {}
    header_writer([row for row in ATTRIBUTES if row.is_for_receiver], for_receiver=True)(envelope, headers)
    assert headers == {"@SaveFwd": int(SaveFwd.MUST), "@SubmittedAt": 0, "@Digest": "00" * 32, "@OriginProved": 1}
