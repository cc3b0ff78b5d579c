"""What a call's prompt begins with."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.prefix import PROMPT_BYTES, Ask, prefix_key, prompt_bytes

LENGTH = 1024


def chat(text: str, identity: str = "", **members: Any) -> Ask:
    return Ask(json.dumps({**members, "messages": [{"role": "user", "content": text}]}).encode(), identity, is_chat=True)


def key(ask: Ask) -> bytes:
    return prefix_key(ask, LENGTH)


def test_bodies_that_begin_alike_have_one_key() -> None:
    assert key(Ask(b"x" * LENGTH + b"tail")) == key(Ask(b"x" * LENGTH + b"another tail"))


@pytest.mark.parametrize("place", [0, LENGTH // 2, LENGTH - 1])
def test_a_byte_within_the_prefix_makes_another_key(place: int) -> None:
    body = bytearray(b"x" * LENGTH)
    body[place] = 0
    assert key(Ask(bytes(body))) != key(Ask(b"x" * LENGTH))


def test_a_short_body_is_keyed_whole() -> None:
    assert key(Ask(b"short")) != key(Ask(b"short."))


def test_identities_keep_equal_prompts_apart() -> None:
    assert len({key(Ask(b"same", identity)) for identity in ("", "a", "b")}) == 3


@given(st.binary(max_size=20), st.text(max_size=5), st.binary(max_size=20), st.text(max_size=5))
def test_prompt_and_identity_cannot_be_taken_for_each_other(one: bytes, a: str, two: bytes, b: str) -> None:
    if b"\0" in one + two or "\0" in a + b:
        return
    assert (key(Ask(one, a)) == key(Ask(two, b))) == ((one, a) == (two, b))


def test_on_the_native_path_the_order_of_members_matters_and_on_the_chat_path_it_does_not() -> None:
    one = b'{"model": "m", "messages": [{"content": "hello"}]}'
    two = b'{"messages":[{"content":"hello"}],"model":"m"}'
    assert key(Ask(one)) != key(Ask(two))
    assert key(Ask(one, is_chat=True)) == key(Ask(two, is_chat=True))


def test_on_the_chat_path_characters_are_counted_and_not_bytes() -> None:
    assert key(chat("\u00e9" * LENGTH + "a")) == key(chat("\u00e9" * LENGTH + "b"))
    assert key(chat("\u00e9" * (LENGTH - 1) + "a")) != key(chat("\u00e9" * (LENGTH - 1) + "b"))


def test_a_prompt_cache_key_is_an_identity_and_the_header_wins_over_it() -> None:
    assert key(chat("hi", prompt_cache_key="k")) == key(chat("hi", identity="k")) != key(chat("hi"))
    assert key(chat("hi", identity="h", prompt_cache_key="k")) == key(chat("hi", identity="h"))


def test_the_text_of_a_chat_is_found_on_the_native_path_too_for_the_cache() -> None:
    asked = {"temperature": 0.7, "messages": [{"role": "user", "content": "hello"}]}
    assert prompt_bytes(Ask(json.dumps(asked).encode())) == b"hello"
    assert prompt_bytes(Ask(b"any bytes \xff")) == b"any bytes \xff"


@given(st.integers(0, 3 * PROMPT_BYTES))
def test_no_more_of_a_prompt_is_kept_than_is_of_use(size: int) -> None:
    assert len(prompt_bytes(Ask(b"x" * size))) <= PROMPT_BYTES
    assert len(prompt_bytes(chat("\u20ac" * (size // 3)))) <= PROMPT_BYTES
