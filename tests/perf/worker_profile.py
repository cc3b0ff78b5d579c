"""Where the dispatcher's time goes: `python -m tests.perf.worker_profile FILE` runs it alone until it is told to end."""

import asyncio
import cProfile
import os
import signal
import sys

import django
import uvloop


async def _run(profile: cProfile.Profile) -> None:
    from workers.invocations.dispatcher import Dispatcher  # noqa: PLC0415 - settings exist only after the setup

    dispatcher, loop = Dispatcher(), asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, dispatcher.stop)
    profile.enable()
    await dispatcher.run()


def main() -> None:
    """Profile the dispatcher at work."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
    django.setup()
    profile = cProfile.Profile()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(profile))
    profile.disable()
    profile.dump_stats(sys.argv[1])


if __name__ == "__main__":
    main()
