"""Which locations may stand for a payload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.invocations.inputs import HOSTS_SETTING, hosts_of, refusal

HOSTS = frozenset({"data.example.com"})


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/key",
        "s3://bucket/a/b//c?x=1#y",
        's3://bucket/a b/{c}|"d"<e>\\f^g`h/%20/\u65e5\u672c',
        "https://data.example.com",
        "https://data.example.com/in?version=1",
        "https://DATA.example.com:443/in",
    ],
)
def test_an_object_in_the_store_or_on_an_allowed_host_may(location: str) -> None:
    assert refusal(location, HOSTS) == ""


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket",
        "s3://bucket/",
        "s3:///key",
        "s3://bucket/a\tb",
        "s3://bucket/a\x7fb",
        "http://data.example.com/in",
        "file:///etc/passwd",
        "https://data.example.com:80/in",
        "https://data.example.com:99999999/in",
        "https://user@data.example.com/in",
        "https://data.example.com@evil.example/in",
        "https://data.example.com.evil.example/in",
        "https://data.example.com\\@evil.example/in",
        "https://evil.example\\.data.example.com/in",
        "https://data.example.com /in",
        "https://data.example.com\r\nHost: evil.example/in",
        "https://[::1]/in",
        "https://169.254.169.254/latest/meta-data/",
        "https:///in",
    ],
)
def test_anything_else_may_not(location: str) -> None:
    assert refusal(location, HOSTS)


def test_a_host_that_is_not_allowed_is_told_with_the_setting() -> None:
    assert HOSTS_SETTING in refusal("https://data.example.com/in", frozenset())


def test_the_setting_is_a_list_between_commas() -> None:
    assert hosts_of(" Data.example.com, ,other.example.com") == {"data.example.com", "other.example.com"}
    assert hosts_of("") == frozenset()


@given(st.text(max_size=60))
def test_no_text_leads_to_a_host_that_is_not_allowed(text: str) -> None:
    assert refusal(f"https://{text}", frozenset()) or not text
    assert refusal(f"https://evil.example{text}", HOSTS)
