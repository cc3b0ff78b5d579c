"""Times, money, counts (see `console.words`) and the cells of a honeycomb in templates."""

from collections.abc import Callable
from datetime import datetime
from functools import cache

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controlplane.console import words
from controlplane.console.honeycomb import Cell, Comb
from controlplane.console.places import address, endpoint, place_of
from controlplane.core import clock
from controlplane.core.words import counted as counted_in_words

register = template.Library()


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """A time relative to now, with the exact one for whoever points at it; kept up to date in the browser."""
    if moment is None:
        return "-"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="seconds"),
        words.exact(moment),
        words.ago(moment, clock.now()),
    )


@register.filter
def since(moment: datetime | None) -> SafeString | str:
    """How long something has lasted."""
    if moment is None:
        return "-"
    seconds = (clock.now() - moment).total_seconds()
    return format_html(
        '<time datetime="{}" title="since {}" data-span>{}</time>',
        moment.isoformat(timespec="seconds"),
        words.exact(moment),
        words.span(seconds),
    )


@register.filter
def clock_time(moment: datetime | None) -> SafeString | str:
    """A time of day, with the date for whoever points at it."""
    if moment is None:
        return "-"
    return format_html(
        '<time datetime="{}" title="{}" data-fixed>{}</time>',
        moment.isoformat(timespec="seconds"),
        words.exact(moment),
        f"{moment:%H:%M:%S}",
    )


register.filter("span", words.span)
register.filter("dollars", words.dollars)
register.filter("cents", words.cents)
register.filter("number", words.number)


@register.filter
def counted(count: int, noun: str) -> str:
    """A count with its noun; an irregular plural follows a comma: `{{ n|counted:"reply,replies" }}`."""
    singular, _, plural = noun.partition(",")
    return counted_in_words(count, singular, plural)


_CELL = '<use href="#hr-cell" x="{}" y="{}" class="stage-{}"><title>{}</title></use>'
_LINKED_CELL = f'<a href="{{}}" tabindex="-1">{_CELL}</a>'


@register.filter
def drawn(comb: Comb) -> SafeString:
    """The cells of a comb, each a link to the page of its endpoint.

    Not a template's loop, which takes several times as long: with a thousand cells that was half of the page's time.
    """
    place = cache(endpoint)
    return mark_safe("".join(_drawn(cell, place) for cell in comb.cells))  # each is escaped


def _drawn(cell: Cell, place: Callable[[str, str], str]) -> SafeString:
    bee = cell.bee
    seen = (cell.x, cell.y, bee.stage, bee.title)
    if not bee.endpoint:
        return format_html(_CELL, *seen)
    return format_html(_LINKED_CELL, place(bee.account_id, bee.endpoint), *seen)


register.filter("place", place_of)
register.simple_tag(address, name="console_url")
