"""The beginning of a chat's text, against what parsing the whole of it gives."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.chat_text import Chat, read_chat


def text_of(content: Any) -> str:
    """What a parsed content holds."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") if isinstance(part, dict) else "" for part in content)
    return ""


_texts = st.text(st.characters(codec="utf-8"), max_size=30)
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_parts = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": _texts})
    | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": _texts})}),
    max_size=4,
)
_messages = st.lists(
    st.fixed_dictionaries({"content": _texts | _parts | st.none()}, optional={"role": _texts, "tool_calls": _anything}),
    max_size=5,
)
_others = st.dictionaries(_texts.filter(lambda name: name not in ("messages", "prompt", "prompt_cache_key")), _anything)


@given(_messages, _others, _others, st.integers(1, 80), st.booleans(), st.sampled_from([None, 2]), st.none() | _texts)
def test_it_is_what_parsing_would_give(
    messages: list[Any],
    before: dict[str, Any],
    after: dict[str, Any],
    limit: int,
    is_ascii: bool,
    indent: int | None,
    cache_key: str | None,
) -> None:
    keyed = {} if cache_key is None else {"prompt_cache_key": cache_key}
    body = json.dumps({**before, "messages": messages, **after, **keyed}, ensure_ascii=is_ascii, indent=indent)
    found = read_chat(body.encode(), limit)
    expected = "".join(text_of(message["content"]) for message in messages)
    assert found.text == expected[:limit]
    assert (found.has_messages, found.cache_key) == (True, (cache_key or "")[:limit])


@given(st.binary(max_size=60) | _messages.map(lambda rows: json.dumps({"messages": rows}).encode()[:-7]))
def test_what_is_no_json_raises_nothing(body: bytes) -> None:
    assert len(read_chat(body, 20).text) <= 20


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"prompt": "once upon"}, "once upon"),
        ({"prompt": ["once", " upon"]}, "once upon"),
        ({"prompt": [1, 2, 3]}, ""),
        ({"messages": "text"}, "text"),
        ({"messages": [{"content": "a\\u0041"}]}, "a\\u0041"),
    ],
)
def test_prompts_and_odd_forms(body: Any, text: str) -> None:
    found = read_chat(json.dumps(body).encode(), 100)
    assert (found.text, found.has_messages) == (text, True)


def test_a_body_without_messages_says_so() -> None:
    assert read_chat(b'{"inputs": "x"}', 10) == Chat(10)


def test_a_cut_through_escaped_characters_leaves_whole_ones() -> None:
    body = json.dumps({"messages": [{"content": "\U0001f600" * 50}]}).encode()
    assert read_chat(body, 7).text == "\U0001f600" * 7


def test_what_follows_enough_text_is_not_looked_at() -> None:
    broken = b'{"messages": [{"content": "' + b"a" * 100 + b'"}, {"content": nonsense'
    assert read_chat(broken, 50).text == "a" * 50


def test_many_escapes_take_time_in_proportion() -> None:
    body = b'{"x": "' + b"\\n" * 1_000_000 + b'", "y": ' + b"[" * 100_000 + b"]" * 100_000 + b', "prompt": "p"}'
    assert read_chat(body, 10).text == "p"
