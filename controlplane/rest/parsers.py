"""Reading JSON bodies."""

from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class BoundedJSONParser(JSONParser):
    """DRF's parser; a body that is nested too deeply for it is the caller's fault, as any other that it cannot read."""

    def parse(self, stream: IO[bytes], *about: Any, **named: Any) -> Any:
        try:
            return super().parse(stream, *about, **named)
        except RecursionError as error:
            raise ParseError("nested too deeply") from error
