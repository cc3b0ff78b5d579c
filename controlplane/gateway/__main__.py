"""`python -m controlplane.gateway`: run the gateway under uvicorn (uvloop and httptools)."""

import logging
import socket
import sys
from contextlib import suppress

import uvicorn

from controlplane.core import stacks
from controlplane.core.one_line import LogLines
from controlplane.gateway.app import Gateway
from controlplane.gateway.express_calls import ExpressCallProtocol
from controlplane.gateway.settings import Settings

KEEP_ALIVE_SECONDS = 75
"""Longer than the idle time after which common clients drop their own pooled connections."""

STARTUP_FAILED = 3


def main() -> None:
    """Serve until told to stop, and go on with the calls there are for as long as they may take."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    settings = Settings.read()
    config = uvicorn.Config(
        Gateway(settings),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=ExpressCallProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.drain_seconds,
        backlog=2048,
    )
    stacks.tell_when_asked()
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):  # Ctrl-C, which the server has heeded
        server.run([_shared_port(settings)] if settings.gateways > 1 else None)
    if not server.started:
        sys.exit(STARTUP_FAILED)


def _shared_port(settings: Settings) -> socket.socket:
    """A socket on a port that several gateways listen on: the kernel deals the connections out among them.

    A gateway by itself has its port for itself, so that a second one by mistake is refused.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind((settings.host, settings.port))
    return listening


if __name__ == "__main__":
    main()
