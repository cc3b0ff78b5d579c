"""The first characters of a chat request's text, without parsing the whole of it. Pure.

A chat body may hold megabytes (images, long documents); routing needs its first few thousand characters. So the JSON is
walked, not parsed: what is of no interest is stepped over by regular expressions, and the walk ends when there is
enough. What is wrong with a body is the model's to say: from a broken one comes whatever was found before the break.

Text is that of the messages' `content`: a string, or the `text` of its parts, joined without a separator; or a `prompt`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Possessive throughout: nothing here may backtrack, or a body could make it slow.
_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_WHOLE_PARTS = re.compile(rb'(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}\"\[{]++")
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+', re.DOTALL)

_UTF8_BYTES_A_CHARACTER = 4
_BYTES_A_CHARACTER = 12
"""At most: two escaped surrogates."""


class _Broken(Exception):
    """This is no JSON from here on."""


@dataclass
class Chat:
    """What was found: the text, up to the limit, whether there were messages or a prompt, and the prompt_cache_key."""

    limit: int
    text: str = ""
    has_messages: bool = False
    cache_key: str = ""

    @property
    def is_full(self) -> bool:
        return len(self.text) >= self.limit

    def add(self, raw: bytes) -> None:
        """Take more text from the inside of a JSON string."""
        self.text += _decoded(raw, self.limit - len(self.text))


def read_chat(body: bytes, limit: int) -> Chat:
    """The first `limit` characters of a chat body's text, and its prompt_cache_key."""
    chat = Chat(limit)
    wants_key = b'"prompt_cache_key"' in body
    walk = _Walk(body)
    try:
        for name in walk.members():
            if name in (b"messages", b"prompt") and not chat.has_messages:
                chat.has_messages = True
                _read_messages(walk, chat)
            elif name == b"prompt_cache_key":
                chat.cache_key = _decoded(walk.string_or_skip() or b"", limit)
                wants_key = False
            else:
                walk.skip()
            if chat.is_full and not wants_key:
                break
    except _Broken:
        return chat
    return chat


def _read_messages(walk: "_Walk", chat: Chat) -> None:
    """Messages, or a prompt: a string, or a list of strings."""
    if walk.peek() != b"[":
        chat.add(walk.string_or_skip() or b"")
        return
    for _ in walk.items():
        if walk.peek() == b"{" and not chat.is_full:
            _read_members(walk, chat, b"content")
        else:
            chat.add(walk.string_or_skip() or b"")


def _read_members(walk: "_Walk", chat: Chat, wanted: bytes) -> None:
    """The wanted member of an object: a string, or parts that hold one."""
    for name in walk.members():
        if name != wanted or chat.is_full:
            walk.skip()
        elif walk.peek() == b"[":
            for _ in walk.items():
                if walk.peek() == b"{":
                    _read_members(walk, chat, b"text")
                else:
                    chat.add(walk.string_or_skip() or b"")
        else:
            chat.add(walk.string_or_skip() or b"")


def _decoded(raw: bytes, limit: int) -> str:
    """The first `limit` characters that the inside of a JSON string stands for."""
    if b"\\" not in raw[: limit * _BYTES_A_CHARACTER]:
        raw = raw[: limit * _UTF8_BYTES_A_CHARACTER]
    elif len(raw) > limit * _BYTES_A_CHARACTER:
        raw = raw[: limit * _BYTES_A_CHARACTER]
        whole = _WHOLE_PARTS.match(raw)
        raw = raw[: whole.end()] if whole else b""
    text = raw.decode("utf-8", "ignore")
    if "\\" in text:
        try:
            text = str(json.loads(f'"{text}"', strict=False))
        except ValueError as error:
            raise _Broken from error
    return text[:limit]


class _Walk:
    """A place in a JSON text, moved on by what is read there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def peek(self) -> bytes:
        """The first byte of what comes next."""
        self._at = _end(_SPACE, self._data, self._at)
        return self._data[self._at : self._at + 1]

    def members(self) -> Iterator[bytes]:
        """The names of an object's members; after each, its value must be read or skipped."""
        self._take(b"{")
        if self._is_over(b"}"):
            return
        while True:
            name = self._string()
            self._take(b":")
            yield name
            if self._is_over(b"}"):
                return
            self._take(b",")

    def items(self) -> Iterator[None]:
        """Once for each item of an array; each must be read or skipped."""
        self._take(b"[")
        if self._is_over(b"]"):
            return
        while True:
            yield
            if self._is_over(b"]"):
                return
            self._take(b",")

    def string_or_skip(self) -> bytes | None:
        """The inside of a string; anything else is stepped over."""
        if self.peek() == b'"':
            return self._string()
        self.skip()
        return None

    def skip(self) -> None:
        """Step over one value."""
        first = self.peek()
        if first == b'"':
            self._string()
        elif first in (b"{", b"["):
            self._skip_nested()
        else:
            found = _SCALAR.match(self._data, self._at)
            if found is None:
                raise _Broken
            self._at = found.end()

    def _skip_nested(self) -> None:
        """Step over an object or array: its brackets are counted, whatever is between them."""
        depth = 0
        while True:
            bracket = self._data[self._at : self._at + 1]
            if bracket not in (b"{", b"[", b"}", b"]") or not bracket:
                raise _Broken
            depth += 1 if bracket in (b"{", b"[") else -1
            self._at += 1
            if depth == 0:
                return
            self._at = _end(_TO_BRACKET, self._data, self._at)

    def _string(self) -> bytes:
        if self.peek() == b'"':
            start, end = self._at + 1, self._data.find(b'"', self._at + 1)
            if end >= 0 and self._data.find(b"\\", start, end) < 0:  # most strings: many times faster than the pattern
                self._at = end + 1
                return self._data[start:end]
        found = _STRING.match(self._data, self._at)
        if found is None:
            raise _Broken
        self._at = found.end()
        return found[1]

    def _is_over(self, closing: bytes) -> bool:
        if self.peek() != closing:
            return False
        self._at += 1
        return True

    def _take(self, wanted: bytes) -> None:
        if self.peek() != wanted:
            raise _Broken
        self._at += 1


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Where what `pattern` matches at `at`, maybe nothing, ends."""
    found = pattern.match(data, at)
    return found.end() if found else at
