"""What the gateway reads from a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.gateway.http import texts_of

NAMES = st.from_regex(rb"[a-z0-9-]{1,12}", fullmatch=True)
VALUES = st.binary(max_size=30).filter(lambda value: b"\n" not in value)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6))
def test_headers_decoded_together_are_what_each_is_by_itself(headers: list[tuple[bytes, bytes]]) -> None:
    assert texts_of(headers) == tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def test_a_value_of_several_lines_moves_no_other_value_to_its_name() -> None:
    with pytest.raises(ValueError, match="longer"):
        texts_of([(b"one", b"1"), (b"two", b"2\nthree"), (b"four", b"4")])
