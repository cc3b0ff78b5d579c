"""What DRF is too kind to: members of another type than the document says, and members of a query that say nothing.

DRF was made for forms, where everything is text. It takes "yes" and 1 for true, false for 0.0, 5 for "5", and an empty
member of a query for none. A document that says otherwise must be right, and a program that sends such a thing has a bug.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.http import QueryDict
from rest_framework import serializers

from controlplane.core.errors import ValidationException

_TYPES: tuple[tuple[type[serializers.Field], tuple[type, ...], str], ...] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.CharField, (str,), "text"),
    (serializers.ChoiceField, (str,), "text"),
    (serializers.DateTimeField, (str,), "text"),
    (serializers.ListField, (list,), "a list"),
    (serializers.DictField, (dict,), "an object"),
)


def refuse_other_types(wish: serializers.Serializer, document: object) -> None:
    """Raise ValidationException, with every violation, unless the JSON document has the types of the fields."""
    wrong = [f"{where}: must be {what}." for where, what in _wrong(wish, document, "")]
    if wrong:
        raise ValidationException(" ".join(wrong))


def plain(query: QueryDict, wish: serializers.Serializer) -> dict[str, Any]:
    """The query as DRF would read JSON: a list for a list, one text for all else, an empty one included."""
    found: dict[str, Any] = {}
    for name, texts in query.lists():
        if isinstance(wish.fields.get(name), serializers.ListField):
            found[name] = texts
        elif len(texts) > 1:
            raise ValidationException(f"{name[:64]} is given more than once.")
        else:
            found[name] = texts[0]
    return found


def _wrong(field: Any, value: object, where: str) -> Iterator[tuple[str, str]]:
    """(path, wanted type) of each value that is of another type. Nulls are for DRF to judge."""
    if value is None:
        return
    if isinstance(field, serializers.Serializer):
        yield from _wrong_members(field, value, where)
    elif isinstance(field, serializers.ListSerializer | serializers.ListField) and isinstance(value, list):
        for place, each in enumerate(value):
            yield from _wrong(field.child, each, f"{where}.{place}")
    elif what := _wanted(field, value):
        yield where, what


def _wrong_members(field: serializers.Serializer, value: object, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):  # anything else is refused by DRF itself
        for name, inner in field.fields.items():
            yield from _wrong(inner, value.get(name), f"{where}.{name}".strip("."))


def _wanted(field: serializers.Field, value: object) -> str:
    """The type that the field wants, in words; nothing where the value has it."""
    for kind, types, what in _TYPES:
        if isinstance(field, kind):
            is_right = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            is_whole = int in types and isinstance(value, float) and value.is_integer()  # JSON has one kind of number
            return "" if is_right or is_whole else what
    return ""
