"""Identifiers drawn many at a time."""

from uuid import RFC_4122, UUID

from controlplane.core.ids import UuidSource


def test_identifiers_are_random_ones_and_differ_beyond_one_drawing() -> None:
    draw = UuidSource()
    drawn = [draw() for _ in range(3 * UuidSource.DRAWN_AT_ONCE + 1)]
    assert len(set(drawn)) == len(drawn)
    assert {(each.version, each.variant) for each in drawn} == {(4, RFC_4122)}


def test_two_sources_do_not_draw_the_same() -> None:
    first, second = UuidSource(), UuidSource()
    assert not {first() for _ in range(300)} & {second() for _ in range(300)}


def test_a_text_is_that_of_a_random_identifier() -> None:
    draw = UuidSource()
    drawn = [draw.text() for _ in range(2 * UuidSource.DRAWN_AT_ONCE)]
    assert len(set(drawn)) == len(drawn)
    assert [str(UUID(text)) for text in drawn] == drawn
    assert {(UUID(text).version, UUID(text).variant) for text in drawn} == {(4, RFC_4122)}
