"""Identifiers drawn many at a time."""

from uuid import RFC_4122

from controlplane.core.ids import UuidSource


def test_identifiers_are_random_ones_and_differ_beyond_one_drawing() -> None:
    draw = UuidSource()
    drawn = [draw() for _ in range(3 * UuidSource.DRAWN_AT_ONCE + 1)]
    assert len(set(drawn)) == len(drawn)
    assert {(each.version, each.variant) for each in drawn} == {(4, RFC_4122)}


def test_two_sources_do_not_draw_the_same() -> None:
    first, second = UuidSource(), UuidSource()
    assert not {first() for _ in range(300)} & {second() for _ in range(300)}
