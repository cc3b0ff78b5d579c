"""When a process counts as dead: the one number that probes, gauges and the console go by."""

LIVE_SECONDS = 15.0
"""A process that was not heard of for so long is taken for dead; each beats every second or two."""
