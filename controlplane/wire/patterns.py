"""The models' regular expressions for every reader of JSON Schema: JavaScript's, Python's, Rust's and Java's alike.

The models' are Java's and match the whole text, JSON Schema's match anywhere. Where the engines have no common word, the
translation takes a little more than is legal, never less: the server is the one that refuses.
"""

_TAG_LETTERS = r"[\p{L}\p{Z}\p{N}_.:/=+\-@]"
_TRANSLATIONS = (
    # Letters, spaces and digits of every script: everything but the rest of ASCII.
    (_TAG_LETTERS, r"[^\x00-\x1f!-*,;<>?\[-^`{-\x7f]"),
    (r"\S[\p{Print}]", r"[\x21-\x7e][\x20-\x7e]"),
    (r"\p{Print}", r"\x20-\x7e"),
    (r"\p{ASCII}", r"[\x00-\x7f]"),
    (r"\A", ""),
    (r"\z", ""),
    (r"\d", "[0-9]"),
)


def portable(pattern: str) -> str | None:
    """The pattern, anchored; None for one that says nothing, or that needs what not every engine has."""
    for java, everywhere in _TRANSLATIONS:
        pattern = pattern.replace(java, everywhere)
    if pattern in (".*", r"[\S\s]*") or r"\p" in pattern or "(?<" in pattern:
        return None
    return f"^(?:{pattern})$"
