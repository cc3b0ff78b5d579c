"""Work in the background goes on after a fault."""

import asyncio
import logging

import pytest

from controlplane.core import keep_going


def test_work_that_fails_is_logged_and_begun_again_until_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keep_going, "AGAIN_SECONDS", 0.0)
    begun = 0

    async def main() -> None:
        enough = asyncio.Event()

        async def work() -> None:
            nonlocal begun
            begun += 1
            if begun == 3:
                enough.set()
                await asyncio.Event().wait()
            raise RuntimeError(f"fault {begun}")

        going = asyncio.create_task(keep_going.keep_going(work))
        async with asyncio.timeout(60):
            await enough.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert begun == 3
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info and record.exc_info[1]] == [
        ("fault 1",),
        ("fault 2",),
    ]
