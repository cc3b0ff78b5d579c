"""`python -m controlplane.gateway`: run the gateway under uvicorn (uvloop and httptools)."""

import logging

import uvicorn

from controlplane.gateway.app import Gateway
from controlplane.gateway.express import ExpressHttpProtocol
from controlplane.gateway.settings import Settings

KEEP_ALIVE_SECONDS = 75
"""Longer than the idle time after which common clients drop their own pooled connections."""


def main() -> None:
    """Serve until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = Settings.read()
    uvicorn.run(
        Gateway(settings),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=ExpressHttpProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=5,
        backlog=2048,
    )


if __name__ == "__main__":
    main()
