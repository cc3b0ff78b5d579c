"""Which addresses a payload may be fetched from."""

from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.invocations.addresses import is_public

INSIDE = [
    *(IPv4Network(text) for text in ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16")),
    *(IPv4Network(text) for text in ("172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4")),
    *(IPv6Network(text) for text in ("::1/128", "::/128", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2002::/16")),
    *(IPv6Network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "100::/64")),
]


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "0.0.0.0",
        "255.255.255.255",
        "127.1",
        "2130706433",
        "0x7f000001",
        "fe80::1%eth0",
        "localhost",
        "",
    ],
)
def test_what_leads_inside_or_is_no_address_is_not(address: str) -> None:
    assert not is_public(address)


@given(st.sampled_from(INSIDE), st.integers(min_value=0))
def test_nothing_of_a_reserved_range_is_public(network: IPv4Network | IPv6Network, place: int) -> None:
    assert not is_public(str(network[place % network.num_addresses]))


@given(st.ip_addresses(v=4))
def test_an_address_is_no_more_public_for_being_written_as_ipv6(address: IPv4Address) -> None:
    assert not is_public(f"::ffff:{address}")
