"""Times, durations, numbers and money as operators read them. Pure."""

from datetime import datetime, timedelta

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """A duration in its largest unit, with the next one while that says something: `42 s`, `3 min`, `2 h 5 min`, `3 d`."""
    left = max(int(seconds), 0)
    for place, (size, unit) in enumerate(_UNITS):
        if left >= size:
            rest, smaller = (left % size, _UNITS[place + 1]) if unit in ("h", "d") else (0, (1, ""))
            more = f" {rest // smaller[0]} {smaller[1]}" if rest >= smaller[0] and left < 10 * size else ""
            return f"{left // size} {unit}{more}"
    return "0 s"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago something was or how soon it will be: `3 min ago`, `in 20 s`, `now`."""
    away = (moment - now) / timedelta(seconds=1)
    if abs(away) < 1:
        return "now"
    return f"in {span(away)}" if away > 0 else f"{span(-away)} ago"


def exact(moment: datetime) -> str:
    """A time in full, to the second, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def dollars(amount: float | None) -> str:
    """US dollars, to the cent, or finer below one; a dash where nobody knows."""
    if amount is None:
        return "-"
    digits = 4 if 0 < abs(amount) < 0.1 else 2
    return f"${amount:,.{digits}f}"


def cents(amount: float | None) -> str:
    """US dollars to the cent, for sums that stand in a column."""
    return "-" if amount is None else f"${amount:,.2f}"


def number(value: float) -> str:
    """A whole number with its thousands set apart."""
    return f"{value:,.0f}"
