"""What a request wishes, and the answer to it: the OpenAI forms of chats and completions, with made-up words."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core import Speed, Work, chain_of

CHARACTERS_A_TOKEN = 4
MOST_OUTPUT_TOKENS = 32_768
_WORDS = ("the", "a", "of", "to", "in", "is", "it", "on", "as", "at", "by", "or", "so", "we", "if", "no", "up", "an", "be")


class BadRequest(Exception):
    """The request cannot be answered as it is; the text says why."""


@dataclass(frozen=True)
class Settings:
    """The model's name, how long its answers are when nobody says, and the seed of its words."""

    model: str
    output_tokens: int
    seed: int


@dataclass(frozen=True)
class Wish:
    """One request, understood."""

    work: Work
    is_chat: bool
    is_stream: bool
    wants_usage: bool


def wish_of(path: str, body: bytes, settings: Settings, speed: Speed) -> Wish:
    """What a body wishes; at /invocations its shape decides. Raises BadRequest."""
    asked = _json_of(body)
    if not isinstance(asked, dict) or not ("messages" in asked or "prompt" in asked):
        if path != "/invocations":
            raise BadRequest("a JSON object with messages or a prompt is wanted")
        asked = {"prompt": body.decode("utf-8", "replace")}
    is_chat = "messages" in asked
    text = _chat_text(asked["messages"]) if is_chat else _text(asked["prompt"])
    limits = (asked.get("max_completion_tokens"), asked.get("max_tokens"), settings.output_tokens)
    wants = next(limit for limit in limits if limit is not None)
    if not isinstance(wants, int) or isinstance(wants, bool) or not 1 <= wants <= MOST_OUTPUT_TOKENS:
        raise BadRequest(f"max_tokens must be from 1 to {MOST_OUTPUT_TOKENS}")
    chain = chain_of(text, speed.block_tokens * CHARACTERS_A_TOKEN)
    tokens = max(-(-len(text) // CHARACTERS_A_TOKEN), 1)
    options = asked.get("stream_options")
    wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    return Wish(Work(None, chain, tokens, wants), is_chat, bool(asked.get("stream")), wants_usage)


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _chat_text(messages: Any) -> str:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadRequest("messages must be a list of objects")
    return "".join(_text(message.get("content")) for message in messages)


def _text(content: Any) -> str:
    """The text of a content: a string, or the texts of its parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text") if isinstance(part, dict) else part) for part in content)
    return content if isinstance(content, str) else ""


def words_of(wish: Wish, settings: Settings) -> list[str]:
    """The answer's tokens: the same for the same prompt and seed, whoever answers."""
    draw = random.Random(settings.seed * 1_000_003 + wish.work.prompt_tokens)
    return [draw.choice(_WORDS) + " " for _ in range(wish.work.output_tokens)]


def _usage(wish: Wish) -> dict[str, Any]:
    work = wish.work
    return {
        "prompt_tokens": work.prompt_tokens,
        "completion_tokens": work.output_tokens,
        "total_tokens": work.prompt_tokens + work.output_tokens,
        "prompt_tokens_details": {"cached_tokens": work.cached_tokens},
    }


def _frame(wish: Wish, settings: Settings, kind: str) -> dict[str, Any]:
    prefix = "chatcmpl" if wish.is_chat else "cmpl"
    return {"id": f"{prefix}-engine", "object": kind, "created": 0, "model": settings.model}


def answer_of(wish: Wish, settings: Settings) -> dict[str, Any]:
    """The whole answer."""
    text = "".join(words_of(wish, settings))
    said = {"message": {"role": "assistant", "content": text}} if wish.is_chat else {"text": text}
    kind = "chat.completion" if wish.is_chat else "text_completion"
    choice = {"index": 0, **said, "finish_reason": "length"}
    return {**_frame(wish, settings, kind), "choices": [choice], "usage": _usage(wish)}


def events_of(wish: Wish, settings: Settings) -> Iterator[bytes]:
    """The answer as server-sent events, each made when it is asked for: one that opens it, one for each token, and those
    that end it."""
    kind = "chat.completion.chunk" if wish.is_chat else "text_completion"
    frame = _frame(wish, settings, kind)

    def event(said: dict[str, Any], reason: str | None = None) -> bytes:
        choices = [{"index": 0, **said, "finish_reason": reason}]
        return _event({**frame, "choices": choices})

    yield event({"delta": {"role": "assistant", "content": ""}}) if wish.is_chat else b": ready\n\n"
    for word in words_of(wish, settings):
        yield event({"delta": {"content": word}} if wish.is_chat else {"text": word})
    yield event({"delta": {}} if wish.is_chat else {"text": ""}, "length")
    if wish.wants_usage:
        yield _event({**frame, "choices": [], "usage": _usage(wish)})
    yield b"data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(data).encode()
