"""What a call's prompt begins with: the key of prefix-aware routing, and the text that a cache would know. Pure.

On the native path the prefix is the first bytes of the body as it came, so that the order of JSON keys and white space
matter; on the OpenAI path it is the first characters of the messages' text (contract, data plane 3.2).
"""

from dataclasses import dataclass
from hashlib import blake2b

from controlplane.routing.chat_text import read_chat

PROMPT_BYTES = 64 * 1024
"""How much of a prompt is looked at by what does not say so itself; also the longest PrefixLength."""

_PROMPT_NAMES = (b'"messages"', b'"prompt"')


@dataclass(frozen=True)
class Ask:
    """A call as far as routing looks at it.

    `identity` is the PrefixAwareId, which keeps the prompts of different applications apart. `is_chat` tells that the
    body came by the OpenAI path.
    """

    body: bytes = b""
    identity: str = ""
    is_chat: bool = False


def prefix_key(ask: Ask, length: int, component: str = "") -> bytes:
    """16 bytes that are the same for calls that belong together: the same first `length` bytes of the body (characters
    of the text, by the OpenAI path), the same identity, and the same `component`, if the endpoint has any."""
    prefix, identity = ask.body[:length], ask.identity
    if ask.is_chat:
        chat = read_chat(ask.body, length)
        identity = identity or chat.cache_key
        if chat.has_messages:
            prefix = chat.text.encode("utf-8", "surrogatepass")
    hashed = blake2b(prefix, digest_size=16)
    hashed.update(b"\0%b\0%b" % (identity.encode(), component.encode()))
    return hashed.digest()


def prompt_bytes(ask: Ask) -> bytes:
    """What the engine's cache would know of this call: the beginning of the prompt's text, or of a body that has none.

    An identity comes first: applications that are kept apart share no cache entries.
    """
    found = ask.body[:PROMPT_BYTES]
    identity = ask.identity
    if ask.is_chat or (found[:1] == b"{" and any(name in found for name in _PROMPT_NAMES)):
        chat = read_chat(ask.body, PROMPT_BYTES)
        identity = identity or chat.cache_key
        if chat.has_messages:
            found = chat.text.encode("utf-8", "surrogatepass")[:PROMPT_BYTES]
    return b"%b\0%b" % (identity.encode(), found) if identity else found
