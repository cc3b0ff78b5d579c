"""Patterns that every engine of JSON Schema reads, and that refuse nothing that the server takes."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.config.operations import MODULES
from controlplane.rest.routes import ROUTES
from controlplane.wire import overlay
from controlplane.wire.model import load_service
from controlplane.wire.patterns import portable
from tests.controlplane.wire.shapes import inner_shapes

assert MODULES, "importing them registered the operations"

INPUTS = [load_service(route.service.model).operation_model(route.operation).input_shape for route in ROUTES] + [
    load_service("sagemaker-runtime").operation_model(name).input_shape
    for name in ("InvokeEndpoint", "InvokeEndpointAsync", "InvokeEndpointWithResponseStream")
]


def honoured(root: Any) -> Iterator[Any]:
    """The shapes that a request may have a say in."""
    for shape in inner_shapes(root):
        known = overlay.honoured_members(root.name) if root.type_name == "structure" else overlay.EVERYTHING
        names = {each.name for name, each in getattr(root, "members", {}).items() if name in known}
        if known is overlay.EVERYTHING or shape.name in names:
            yield shape
            yield from honoured(shape)


PATTERNS = sorted({shape.metadata["pattern"] for root in INPUTS for shape in honoured(root) if "pattern" in shape.metadata})
HONOURED = [pattern for pattern in PATTERNS if portable(pattern)]
PLAIN = st.text(st.characters(codec="ascii", exclude_characters="\r\n\x1c\x1d\x1e\x1f\x0b\x0c"), max_size=40)


def takes(pattern: str, text: str) -> bool:
    """Whether Rust's engine finds the pattern, as most validators of OpenAPI do today."""
    return bool(jsonschema_rs.is_valid({"type": "string", "pattern": pattern}, text))


def test_there_is_something_to_test() -> None:
    assert len(HONOURED) > 15


@pytest.mark.parametrize("pattern", HONOURED)
def test_a_translation_is_anchored_and_compiles(pattern: str) -> None:
    told = portable(pattern)
    assert told is not None
    assert told.startswith("^(?:")
    assert told.endswith(")$")
    re.compile(told)
    assert "\\p" not in told, "JavaScript without its u flag and Python have no classes of letters"


@pytest.mark.parametrize("pattern", HONOURED)
@settings(max_examples=30)
@given(data=st.data())
def test_what_the_server_takes_the_document_takes(pattern: str, data: st.DataObject) -> None:
    ours = overlay.compiled(pattern)
    text = data.draw(st.one_of(PLAIN, st.from_regex(ours, fullmatch=True)).filter(lambda each: "\n" not in each))
    if ours.fullmatch(text):
        assert takes(portable(pattern) or "", text)


@pytest.mark.parametrize("pattern", [each for each in HONOURED if "\\p" not in each])
@settings(max_examples=30)
@given(text=PLAIN)
def test_of_ascii_the_document_takes_nothing_else(pattern: str, text: str) -> None:
    if takes(portable(pattern) or "", text):
        assert overlay.compiled(pattern).fullmatch(text)


@pytest.mark.parametrize(
    ("text", "is_legal"),
    [("team a", True), ("größe", True), ("チーム", True), ("a:b/c=d+e-f@g.h_i", True), ("a,b", False), ("a<b", False)],
)
def test_tags_are_those_of_every_script(text: str, is_legal: bool) -> None:
    [pattern] = [each for each in PATTERNS if each.startswith(r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)")]
    assert takes(portable(pattern) or "", text) is is_legal
    assert bool(overlay.compiled(pattern).fullmatch(text)) is is_legal


@pytest.mark.parametrize("pattern", [".*", r"[\S\s]*", r"\p{Lu}+"])
def test_what_says_nothing_or_cannot_be_said_is_left_out(pattern: str) -> None:
    assert portable(pattern) is None
