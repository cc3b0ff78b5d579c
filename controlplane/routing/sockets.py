"""Connections whose other end has vanished: found out by the system, and not by whoever waits for an answer.

A host that loses its power or its network says nothing any more, and a call may wait for an hour. With probes by the
system the connection is lost after IDLE_SECONDS + PROBES * PROBE_SECONDS, and the call broken off. A process that only
hangs answers them: its system does.
"""

import asyncio
import socket

IDLE_SECONDS = 30
"""Of silence, before the first probe."""

PROBE_SECONDS = 10
PROBES = 3

_OPTIONS = (("TCP_KEEPIDLE", IDLE_SECONDS), ("TCP_KEEPINTVL", PROBE_SECONDS), ("TCP_KEEPCNT", PROBES))
"""macOS knows the first by another name, and probes after two hours as ever."""


def notice_silence(transport: asyncio.BaseTransport) -> None:
    """Have the system look after the connection."""
    opened = transport.get_extra_info("socket")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
