"""What others have written (models, stores, callers), as one line that changes nothing but itself.

A model's words end up in logs and on operators' terminals: a line break in them would forge a line of the log, an escape
sequence would steer the terminal, and a mark of direction would show the rest of the line in another order. So these are
shown as what they are, `\\n` or `\\x1b`, and every other character as it is.

    LogLines    what every process formats its log with: a record is a line, and the lines of its traceback are indented
"""

import logging
import re

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
INDENT = "    "

# Control characters (C0, C1, DEL), marks and overrides of direction, separators of lines and paragraphs, half surrogates.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text without a character that steers a terminal or ends a line: such are written as in a Python string."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class LogLines(logging.Formatter):
    """Writes each record as one line, after which every line of a traceback is indented."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))

    def formatException(self, ei: "logging._SysExcInfoType") -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"{INDENT}{one_line(line)}" for line in text.split("\n"))
