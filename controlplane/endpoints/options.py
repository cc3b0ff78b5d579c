"""What Headrace can do beyond the API it speaks is asked for by tags on the endpoint, so that any client can ask for it.

    headrace:coming-home       10m                      replace fallbacks once a preferred type has been open for so long
    headrace:max-hourly-price  12.50                    what all instances of the endpoint together may cost, US dollars
    headrace:patience          ml.p5.48xlarge=20m ...   how long to do without an instance before asking this type
    headrace:market            spot on-demand           the markets to ask, most wanted first (default: on-demand)
    headrace:wake              1                        once something is queued for an asynchronous endpoint without
                                                        instances, so many are wanted (of its first variant)
    headrace:surge             none                     updates retire a batch before its replacements are launched

Durations are a number with s, m or h. Tags may be changed at any time with AddTags and DeleteTags. Pure.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.catalog.rules import OPTION_TAG_PREFIX as PREFIX
from controlplane.core.offerings import MARKETS, ON_DEMAND

DURATION_LIMIT_SECONDS = 7 * 86400.0
WAKE_LIMIT = 999

_DURATION = re.compile(r"([0-9]{1,6})(s|m|h)")
_COUNT = re.compile(r"[1-9][0-9]{0,2}")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Options:
    """An endpoint's options; durations in seconds, prices in US dollars per hour, None = not asked for."""

    home_after_seconds: float | None = None
    hourly_ceiling: float | None = None
    patience_seconds: Mapping[str, float] = field(default_factory=dict)
    markets: tuple[str, ...] = (ON_DEMAND,)
    is_surgeless: bool = False
    wake_count: int | None = None


class OptionError(ValueError):
    """An option tag cannot be understood; the message names the tag and says what it may hold."""


def parse(tags: Iterable[tuple[str, str]]) -> Options:
    """The options among an endpoint's tags (key, value); raises OptionError for the first that is wrong."""
    options = Options()
    for key, value in tags:
        if key.startswith(PREFIX):
            options = replace(options, **_read(key, value))
    return options


def violations(tags: Iterable[tuple[str, str]], *, is_async: bool = True) -> Iterator[str]:
    """One sentence for each option tag that cannot be understood, or has no effect on this kind of endpoint."""
    for tag in tags:
        try:
            found = parse([tag])
        except OptionError as error:
            yield str(error)
        else:
            if found.wake_count is not None and not is_async:
                yield f'Tag "{tag[0]}" has an effect on asynchronous endpoints only: others always have an instance.'


def _read(key: str, value: str) -> dict[str, Any]:
    name = key.removeprefix(PREFIX)
    if name not in _READERS:
        known = ", ".join(PREFIX + each for each in sorted(_READERS))
        raise OptionError(f'Tag "{key}" is no option of Headrace; there are {known}.')
    try:
        return _READERS[name](value)
    except ValueError as error:
        raise OptionError(f'Tag "{key}" has the value "{value}", but {error}.') from error


def _coming_home(value: str) -> dict[str, Any]:
    return {"home_after_seconds": _seconds(value)}


def _max_hourly_price(value: str) -> dict[str, Any]:
    try:
        price = float(value)
    except ValueError:
        price = math.nan
    if not 0 < price < 1e9:
        raise ValueError("it must be a price in US dollars per hour, above 0")
    return {"hourly_ceiling": price}


def _patience(value: str) -> dict[str, Any]:
    found: dict[str, float] = {}
    for part in value.split():
        instance_type, equals, duration = part.partition("=")
        if not equals or not instance_type:
            raise ValueError("it must be a list such as ml.p5.48xlarge=20m, separated by spaces")
        if instance_type in found:
            raise ValueError(f"it names {instance_type} more than once")
        found[instance_type] = _seconds(duration)
    return {"patience_seconds": found}


def _market(value: str) -> dict[str, Any]:
    markets = tuple(value.split())
    if not markets or len(set(markets)) < len(markets) or not set(markets) <= set(MARKETS):
        raise ValueError(f"it must name one or more of {', '.join(MARKETS)}, each once, separated by spaces")
    return {"markets": markets}


def _surge(value: str) -> dict[str, Any]:
    if value != "none":
        raise ValueError('it may only be "none"')
    return {"is_surgeless": True}


def _wake(value: str) -> dict[str, Any]:
    if not _COUNT.fullmatch(value):
        raise ValueError(f"it must be a whole number of instances, from 1 to {WAKE_LIMIT}")
    return {"wake_count": int(value)}


def _seconds(value: str) -> float:
    found = _DURATION.fullmatch(value)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= DURATION_LIMIT_SECONDS:
        raise ValueError("a duration is a whole number with s, m or h, above 0 and at most 168h")
    return seconds


_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "coming-home": _coming_home,
    "max-hourly-price": _max_hourly_price,
    "patience": _patience,
    "market": _market,
    "surge": _surge,
    "wake": _wake,
}
