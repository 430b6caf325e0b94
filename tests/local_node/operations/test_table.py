"""The tables of operations of both kinds of nodes: complete, documented, and safe against any arguments.

Wrong arguments are tried on the structs alone; ``tests/service/test_admin.py`` asks running nodes.
"""

import inspect
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.access_rights import AccessRole
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments, descriptions, read_arguments
from semq.service.operations.operation import Kind, Operation
from tests.depth import deeper
from tests.service.inprocess import InProcess

NODE_CLASSES = (LocalNode, HubNode)
ROWS = {row.name + node_class.__name__: row for node_class in NODE_CLASSES for row in node_class.table}
every_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=deeper(6, 100),
)


@pytest.mark.parametrize("node_class", NODE_CLASSES)
def test_names_of_operations_are_unique(node_class: type[LocalNode | HubNode]) -> None:
    names = [row.name for row in node_class.table]
    assert len(set(names)) == len(names)


async def test_every_operation_is_bound_at_a_running_node(inprocess: InProcess) -> None:
    hub, node = await inprocess.hub(), await inprocess.local("10008", 1)
    for running in (hub, node):
        assert set(running.operations) == {row.name for row in running.table}


@every_row
def test_every_row_is_documented(row: Operation) -> None:
    assert row.summary.endswith("."), row.name
    assert len(row.summary) <= 120, row.summary
    fields = {field.encode_name for field in msgspec.structs.fields(row.arguments)}
    assert set(descriptions(row.arguments)) == fields, f"{row.name}: arguments without a description"
    assert issubclass(row.arguments, Arguments)


@every_row
def test_every_handler_takes_the_arguments_of_its_row(row: Operation) -> None:
    parameters = list(inspect.signature(row.handler, eval_str=False).parameters.values())[1:]
    assert issubclass(row.arguments, parameters[0].annotation)
    assert len(parameters) == (2 if row.kind is Kind.ACT else 1)


@every_row
def test_texts_lists_and_numbers_have_an_upper_bound(row: Operation) -> None:
    for field in msgspec.structs.fields(row.arguments):
        info = msgspec.inspect.type_info(field.type)
        assert not list(_unbounded(info)), f"{row.name}: {field.name}"


def _unbounded(info: msgspec.inspect.Type) -> Any:
    """Yield the types within a type that have no upper bound."""
    match info:
        case msgspec.inspect.UnionType():
            for member in info.types:
                yield from _unbounded(member)
        case msgspec.inspect.Metadata():
            yield from _unbounded(info.type)
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            if info.max_length is None:
                yield info
            yield from _unbounded(info.item_type)
        case msgspec.inspect.TupleType():
            for item in info.item_types:
                yield from _unbounded(item)
        case msgspec.inspect.StrType():
            if info.max_length is None:
                yield info
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            if info.le is None and info.lt is None:
                yield info


def test_the_role_payload_is_for_msg_body_alone_and_no_viewer_acts() -> None:
    assert {row.name for row in ROWS.values() if row.role is AccessRole.PAYLOAD} == {"msg.body"}
    assert all(row.role is not AccessRole.VIEWER for row in ROWS.values() if row.kind is Kind.ACT)


@given(st.sampled_from(list(ROWS.values())), st.data())
def test_any_arguments_are_read_or_refused(row: Operation, data: st.DataObject) -> None:
    names = st.sampled_from([*row.arguments.__struct_encode_fields__, "nonsense"])
    arguments = data.draw(st.dictionaries(names | st.text(), JSON))
    with suppress(BadArguments):  # any other error would be answered as a failure of the node
        assert isinstance(read_arguments(row.name, row.arguments, arguments), row.arguments)
