"""JSON of the right types passes, whatever is in it; JSON of any other is refused by name, all of it at once."""

from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st
from rest_framework import serializers

from controlplane.core.errors import ValidationException
from controlplane.rest.strict import plain, refuse_other_types


class Inner(serializers.Serializer):
    Key = serializers.CharField()


class Wish(serializers.Serializer):
    Flag = serializers.BooleanField(required=False)
    Count = serializers.IntegerField(required=False)
    Price = serializers.FloatField(required=False, allow_null=True)
    Name = serializers.CharField(required=False)
    Kind = serializers.ChoiceField(choices=["a", "b"], required=False)
    At = serializers.DateTimeField(required=False)
    Kinds = serializers.ListField(child=serializers.ChoiceField(choices=["a", "b"]), required=False)
    About = serializers.DictField(required=False)
    Tags = Inner(many=True, required=False)
    One = Inner(required=False)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "Flag": st.booleans(),
    "Count": st.integers() | st.integers(-1000, 1000).map(float),
    "Price": FINITE | st.integers() | st.none(),
    "Name": st.text(),
    "Kind": st.text(),
    "At": st.text(),
    "Kinds": st.lists(st.text()),
    "About": st.dictionaries(st.text(), st.integers()),
    "Tags": st.lists(st.fixed_dictionaries({"Key": st.text()})),
    "One": st.fixed_dictionaries({"Key": st.text()}),
}


@given(document=st.fixed_dictionaries({}, optional=RIGHT))
def test_whatever_has_the_types_passes(document: dict[str, Any]) -> None:
    refuse_other_types(Wish(), document)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"Flag": 0}, "Flag: must be true or false."),
        ({"Flag": "yes"}, "Flag: must be true or false."),
        ({"Count": True}, "Count: must be a whole number."),
        ({"Count": "5"}, "Count: must be a whole number."),
        ({"Count": 1.5}, "Count: must be a whole number."),
        ({"Price": False}, "Price: must be a number."),
        ({"Price": "1.0"}, "Price: must be a number."),
        ({"Name": 5}, "Name: must be text."),
        ({"Kind": ["a"]}, "Kind: must be text."),
        ({"At": 5}, "At: must be text."),
        ({"Kinds": "a"}, "Kinds: must be a list."),
        ({"Kinds": ["a", 1]}, "Kinds.1: must be text."),
        ({"About": []}, "About: must be an object."),
        ({"Tags": [{"Key": "x"}, {"Key": 1}]}, "Tags.1.Key: must be text."),
        ({"One": {"Key": {}}}, "One.Key: must be text."),
        ({"Flag": 1, "Count": "1"}, "Flag: must be true or false. Count: must be a whole number."),
    ],
)
def test_another_type_is_refused_by_its_path(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationException) as refused:
        refuse_other_types(Wish(), document)
    assert refused.value.message == sentence


@pytest.mark.parametrize("document", [[], "x", 5, {"One": 5}, {"Tags": {"Key": 1}}, {"Unknown": 1}])
def test_what_has_no_members_is_left_to_the_serializer(document: object) -> None:
    refuse_other_types(Wish(), document)


def test_a_query_is_read_as_json_would_be() -> None:
    assert plain(QueryDict("Kinds=a&Kinds=b&Name=&Count=3"), Wish()) == {"Kinds": ["a", "b"], "Name": "", "Count": "3"}
    assert plain(QueryDict("Kinds=a"), Wish()) == {"Kinds": ["a"]}
    wish = Wish(data=plain(QueryDict("Name="), Wish()))
    assert not wish.is_valid()
    with pytest.raises(ValidationException, match="Name is given more than once"):
        plain(QueryDict("Name=a&Name=b"), Wish())
