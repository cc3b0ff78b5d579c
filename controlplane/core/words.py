"""Words that sentences for humans share."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: `1 instance`, `1,200 instances`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
