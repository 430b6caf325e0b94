"""All interfaces select messages by the fields of one filter."""

from typing import get_args

import msgspec
import pytest

from semq.cli.options import selection as options
from semq.console.pages import failed, messages
from semq.service.operations.arguments import descriptions, read_arguments
from semq.service.operations.overview import ListMessages, ListStuck
from semq.store.views.selection import PLACE, MessageFilter, Search, Side

FIELDS = set(MessageFilter.__struct_fields__)
OPTIONS = {name.removesuffix("Option").lower(): kind for name, kind in vars(options).items() if name.endswith("Option")}


@pytest.mark.parametrize("arguments", [ListMessages, ListStuck])
def test_operations_have_the_fields_of_the_filter_with_their_descriptions(arguments: type[msgspec.Struct]) -> None:
    assert set(Search.__struct_fields__) <= set(arguments.__struct_fields__)
    described = descriptions(arguments)
    assert set(arguments.__struct_fields__) == set(described)
    assert {name: described[name] for name in FIELDS} == descriptions(MessageFilter)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_commands_say_what_the_filter_says(name: str) -> None:
    kind, option = get_args(OPTIONS[name])
    assert option.help == descriptions(MessageFilter)[name]
    if name == "side":
        assert tuple(kind) == get_args(Side)


@pytest.mark.parametrize("names", [{*OPTIONS}, {*failed.FILTERS}, {*messages.FILTERS} - {"order"}])
def test_options_of_commands_and_filters_of_pages_are_fields_of_the_filter(names: set[str]) -> None:
    assert names
    assert set(names) <= FIELDS


def test_places_are_arguments_of_the_next_page() -> None:
    page = dict.fromkeys(PLACE, 7)
    assert read_arguments("msg.list", ListMessages, page) == ListMessages(outbound=7, inbound=7, submitted=7, line=7)
