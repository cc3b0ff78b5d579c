"""What a form carries of the facts that it was rendered from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.console.actions_seen import Change, changes, read, token

facts = st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=8)


@given(facts)
def test_a_token_gives_back_the_facts_it_was_made_of(shown: dict[str, str]) -> None:
    assert read(token(shown)) == shown
    assert changes(shown, shown) == ()


@given(facts, facts)
def test_facts_are_the_same_exactly_when_nothing_has_changed(before: dict[str, str], after: dict[str, str]) -> None:
    found = changes(before, after)
    for change in found:
        assert change.before != change.after
        assert change.label in {*before, *after}
    differing = {label for label in {*before, *after} if before.get(label, "nothing") != after.get(label, "nothing")}
    assert {change.label for change in found} == differing


@given(st.text(max_size=200))
def test_whatever_else_is_sent_is_no_token_or_facts(text: str) -> None:
    found = read(text)
    assert found is None or all(isinstance(value, str) for value in found.values())


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "3", '{"a": 1}', '{"a": null}', "{", "[" * 100_000], ids=list("abcdefgh")
)
def test_what_is_no_token_is_told_apart(text: str) -> None:
    assert read(text) is None


def test_a_token_beyond_all_measure_is_none() -> None:
    assert read(token({"a": "x" * 300_000})) is None


def test_a_change_reads_from_before_to_after() -> None:
    found = changes({"count": "1", "tag": "x"}, {"count": "3"})
    assert found == (Change("count", "1", "3"), Change("tag", "x", "nothing"))
    assert str(found[0]) == "count: 1 → 3"
