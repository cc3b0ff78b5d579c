"""What others have written forges no line of a log and steers no terminal."""

import logging
import logging.config
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.config import settings
from controlplane.core.one_line import LogLines, one_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It failed: no room.", "It failed: no room."),
        ("\u65e5\u672c \U0001f600 \u00e9 \\ \"'<>", "\u65e5\u672c \U0001f600 \u00e9 \\ \"'<>"),
        ("no\r\n2026-11-30 ERROR all is lost", "no\\r\\n2026-11-30 ERROR all is lost"),
        ("\x1b[2J\x07\x7f\x9b31m", "\\x1b[2J\\x07\\x7f\\x9b31m"),
        ("a\u202eb\u2028c\u2066d", "a\\u202eb\\u2028c\\u2066d"),
        ("\ud800", "\\ud800"),
    ],
    ids=["plain", "all scripts", "a forged line", "a terminal", "another direction", "half a surrogate"],
)
def test_what_steers_is_shown_and_everything_else_stays(text: str, expected: str) -> None:
    assert one_line(text) == expected


@given(st.text(st.characters(codec=None)))
def test_no_text_has_a_second_line_or_a_control_character(text: str) -> None:
    shown = one_line(text)
    assert len(shown.splitlines()) <= 1
    assert not [character for character in shown if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]


def record(message: str, fault: BaseException | None = None) -> logging.LogRecord:
    """A record as `log.exception` makes it."""
    exc_info = None if fault is None else (type(fault), fault, fault.__traceback__)
    return logging.LogRecord("some.module", logging.ERROR, __file__, 1, "it said %s", (message,), exc_info)


def test_a_record_is_one_line() -> None:
    line = LogLines().format(record("no\n2026-11-30 18:43:09,167 INFO root all is well"))
    assert line.endswith(" ERROR some.module it said no\\n2026-11-30 18:43:09,167 INFO root all is well")
    assert len(line.splitlines()) == 1


def test_the_lines_of_a_traceback_cannot_be_taken_for_records() -> None:
    try:
        raise ValueError("broken\n2026-11-30 INFO root all is well\x1b[0m")
    except ValueError:
        fault = sys.exc_info()[1]
    first, *others = LogLines().format(record("x", fault)).splitlines()
    assert first.endswith("it said x")
    assert [line for line in others if not line.startswith("    ")] == []
    assert others[-1] == "    2026-11-30 INFO root all is well\\x1b[0m"


def test_every_process_that_django_sets_up_logs_so() -> None:
    handler = logging.config.DictConfigurator(settings.LOGGING).configure_formatter(settings.LOGGING["formatters"]["line"])
    assert isinstance(handler, LogLines)
