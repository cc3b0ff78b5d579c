"""Drawing with a few SVG elements; everything a picture needs is inside its one file."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

FONT = "-apple-system, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
INK = "#1f2430"
GREY = "#6b7280"
RULE = "#e5e7eb"
PAPER = "#ffffff"

Point = tuple[float, float]
Attributes = dict[str, float | str]


class Drawing:
    """An SVG picture of so many pixels, dark on white."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._root = Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {_number(width)} {_number(height)}",
                "width": _number(width),
                "height": _number(height),
                "font-family": FONT,
                "role": "img",
            },
        )
        SubElement(self._root, "title").text = title
        self.box(0, 0, width, height, PAPER)

    def box(self, left: float, top: float, width: float, height: float, fill: str, opacity: float = 1.0) -> None:
        """A filled rectangle."""
        place: Attributes = {"x": left, "y": top, "width": width, "height": height}
        self._add("rect", {**place, "fill": fill, **_opacity(opacity)})

    def line(self, start: Point, end: Point, colour: str = RULE, width: float = 1.0) -> None:
        """A straight line."""
        ends: Attributes = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
        self._add("line", {**ends, "stroke": colour, "stroke-width": width})

    def area(self, points: Sequence[Point], fill: str) -> None:
        """A filled shape."""
        self._add("path", {"d": f"{_path(points)}Z", "fill": fill})

    def curve(self, points: Sequence[Point], colour: str, width: float) -> None:
        """A line through points."""
        style: Attributes = {"fill": "none", "stroke": colour, "stroke-width": width, "stroke-linejoin": "round"}
        self._add("path", {"d": _path(points), **style})

    def text(
        self, at: Point, words: str, *, size: float = 12, colour: str = INK, anchor: str = "start", weight: str = "normal"
    ) -> None:
        """Words with their baseline at a point."""
        style: Attributes = {"font-size": size, "fill": colour, "text-anchor": anchor, "font-weight": weight}
        self._add("text", {"x": at[0], "y": at[1], **style}).text = words

    def to_text(self) -> str:
        """The file."""
        indent(self._root, " ")
        return tostring(self._root, encoding="unicode") + "\n"

    def _add(self, tag: str, attributes: Attributes) -> Element:
        written = {name: value if isinstance(value, str) else _number(value) for name, value in attributes.items()}
        return SubElement(self._root, tag, written)


def _opacity(opacity: float) -> Attributes:
    return {} if opacity >= 1 else {"fill-opacity": opacity}


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    """Two decimals are finer than any screen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
