"""Records: slots, constructor, equality, representation."""

from typing import ClassVar

import pytest

from semq.amqp.record import Record


class Point(Record):
    kind: ClassVar[str] = "point"
    x: int
    y: int = 2


class NamedPoint(Point):
    name: str = ""


def test_the_constructor_takes_fields_by_position_or_by_name() -> None:
    assert (Point(1).x, Point(1).y, Point(y=3, x=1).y) == (1, 2, 3)
    assert Point.names == ("x", "y")
    assert Point.kind == "point"


def test_a_field_without_default_is_required() -> None:
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]


def test_a_record_inherits_the_fields_of_its_base() -> None:
    assert NamedPoint.names == ("x", "y", "name")
    assert NamedPoint(1, 2, "here").name == "here"


def test_equal_means_same_type_and_values() -> None:
    assert Point(1, 2) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != NamedPoint(1, 2, "")
    assert Point(1) != (1, 2)


def test_representation_names_the_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2)"


def test_a_record_accepts_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined]


def test_a_record_can_be_matched_by_position() -> None:
    match NamedPoint(1, 2, "here"):
        case NamedPoint(x, _, name):
            assert (x, name) == (1, "here")
