"""Which network addresses a payload may be fetched from. Pure.

A name that a caller gives may lead anywhere: to this machine, to its neighbours, to the cloud's metadata service. So only
addresses of the public internet are connected to, and of a name that leads to several all must be public.
"""

from ipaddress import IPv6Address, IPv6Network, ip_address

_CARRIERS = tuple(
    IPv6Network(text)
    for text in (
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "::/96",  # IPv4-compatible, no longer in use
        "64:ff9b::/96",  # NAT64, well-known prefix
        "64:ff9b:1::/48",  # NAT64, local use
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
    )
)
"""IPv6 ranges whose addresses stand for an IPv4 address: what they lead to cannot be told here, so nowhere."""


def is_public(address: str) -> bool:
    """Whether `address` (IPv4 or IPv6, no scope) is one of the public internet."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if found.is_multicast or found.is_reserved or found.is_unspecified or found.is_loopback or found.is_link_local:
        return False
    if isinstance(found, IPv6Address) and (found.is_site_local or any(found in carrier for carrier in _CARRIERS)):
        return False
    return found.is_global
