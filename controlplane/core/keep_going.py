"""Work in the background that nobody awaits: a fault in it is logged, and it is begun again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)

BackgroundWork = Callable[[], Awaitable[None]]


async def keep_going(work: BackgroundWork) -> NoReturn:
    """Do `work`, again and again, until cancelled; a fault in it must not leave the process without it."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("work in the background failed and is started again")
        await asyncio.sleep(AGAIN_SECONDS)
