"""Rectangles, wires and text as SVG that stands alone: no script, no reference.

Colours are attributes, those of light ground; its one style sheet replaces them where the reader
prefers dark. What it is shown by need not have a certain font, so widths are estimates on the safe
side: those of DejaVu Sans, the widest of the usual generic faces. Sources: SVG 1.1 (Second
Edition), W3C; Media Queries Level 5, W3C: prefers-color-scheme.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from math import ceil
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from hpckit.core.text import visible
from hpckit.core.values import dataclass

_THIN: Final = frozenset("iljItf.,:;|!'()[]/ ·")
_BROAD: Final = frozenset("mwMW@%…—×")
_LONGEST: Final = 4000
_GROUNDS: Final = frozenset({"panel", "pod", "leaf"})
"""Boxes that others stand on."""
SHOWN_W: Final = 1280.0
LEAST_TEXT: Final = 11.0
"""No text is smaller, in pixels, where a picture is shown `SHOWN_W` wide: on a slide, on a page."""

DARK: Final[Mapping[str, str]] = {
    "#ffffff": "#0d1117", "#f6f8fa": "#161b22", "#d0d7de": "#3d444d", "#e3e8ee": "#2d333b",
    "#1f2328": "#e6edf3", "#57606a": "#9da7b3", "#6e7781": "#8b949e", "#afb8c1": "#545d68",
    "#cf222e": "#ff8f88", "#9a6700": "#e3b341", "#7d4e00": "#e3b341", "#0969da": "#6cb6ff",
    "#1a7f37": "#57ab5a", "#8250df": "#b083f0", "#bf3989": "#f28fc4", "#bc4c00": "#f0934e",
    "#b08be8": "#8256d0", "#7236d1": "#b083f0", "#4c1a95": "#dcbdfb",
    "#fff4d6": "#3b2f0d", "#d3f5db": "#153d22", "#ffe8d9": "#452410", "#ddf0ff": "#12304f",
    "#a8d4ff": "#1d5a94",
    "#ffebe9": "#431a1c", "#eddcff": "#33215a", "#ffe0f0": "#4a1b36",
    "#d3f5dd": "#12361f", "#ffc680": "#8a4b00", "#ff9d97": "#a01820", "#bfdcff": "#0b4a94",
    "#fff1f0": "#161b22", "#a01820": "#ff9d97", "#fefefe": "#0d1117",
    "#9be9a8": "#1b5e2c", "#ffe28a": "#6b4f00", "#ffb3ab": "#8e2a24",
}  # fmt: skip
"""What each colour of light ground is on dark ground; a colour that is not here is kept."""
_CLASS: Final = "hpckit-picture"
_KEPT: Final = "kept"
"""The class of text on a colour that is kept."""


def _dark_rules() -> Iterable[str]:
    yield f".{_CLASS}{{color-scheme:light dark}}@media (prefers-color-scheme:dark){{"
    for light, dark in DARK.items():
        for name in ("fill", "stroke"):
            yield f'.{_CLASS} [{name}="{light}"]:not(.{_KEPT}){{{name}:{dark}}}'
    yield "}"


STYLE: Final = "".join(_dark_rules())
"""The style sheet of every picture; a page's policy that lets styles in by digest needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A rectangle in pixels; y grows downwards."""

    x: float
    y: float
    w: float
    h: float

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.x + self.w

    @property
    def bottom(self) -> float:
        """The y of its lower edge."""
        return self.y + self.h

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + self.w / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Colours of a box; `dash` is SVG's stroke-dasharray."""

    fill: str
    stroke: str
    width: float = 1.2
    dash: str = ""
    radius: float = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A text of one size; `anchor` is SVG's text-anchor."""

    text: str
    size: float = 11
    is_bold: bool = False
    colour: str = "#1f2328"
    anchor: str = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """How a wire is drawn; `is_kept` is on a colour that is kept on dark ground, and so is it."""

    colour: str
    width: float
    dash: str = ""
    is_kept: bool = False


class Layer(StrEnum):
    """What lies over what, the lowest first."""

    PANEL = "panel"
    WIRE = "wire"
    BOX = "box"
    LABEL = "label"
    BADGE = "badge"


def text_width(text: str, size: float) -> float:
    """An estimate, in pixels, of the room that a text of one line takes."""
    return size * sum(map(_em, text))


def _em(char: str) -> float:
    if not char.isascii() and unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if char in _THIN:
        return 0.4
    if char in _BROAD:
        return 1.0
    return 0.72 if char.isupper() else 0.64


def fitted(text: str, size: float, room: float) -> str:
    """A text, cut short at its end where it would not fit."""
    text = visible(text, _LONGEST)
    if text_width(text, size) <= room:
        return text
    left = room - text_width("…", size)
    kept = 0
    for char in text:
        left -= text_width(char, size)
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + "…"


def broken(parts: Iterable[str], size: float, room: float, between: str = " ") -> list[str]:
    """Parts in lines that fit, none broken itself; one that fits in no line is cut short."""
    lines: list[str] = []
    for part in parts:
        word = visible(part, _LONGEST)
        joined = f"{lines[-1]}{between}{word}" if lines else word
        if lines and text_width(joined, size) <= room:
            lines[-1] = joined
        else:
            lines.append(fitted(word, size, room))
    return lines


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _tag(tag: str, attributes: Mapping[str, object], text: str | None = None) -> str:
    """An element; an empty attribute is left out."""
    words = [tag]
    for name, value in attributes.items():
        if value != "":
            written = _number(value) if isinstance(value, float | int) else str(value)
            words.append(f"{name}={quoteattr(written)}")
    inner = "/>" if text is None else f">{escape(visible(text, _LONGEST))}</{tag}>"
    return f"<{' '.join(words)}{inner}"


def _rect(rect: Rect, look: Look) -> str:
    place = {"x": rect.x, "y": rect.y, "width": rect.w, "height": rect.h, "rx": look.radius}
    edge = {"stroke": look.stroke, "stroke-width": look.width, "stroke-dasharray": look.dash}
    return _tag("rect", {**place, "fill": look.fill, **edge})


def _text(x: float, y: float, word: Word, ground: str = "#ffffff") -> str:
    """A text on a colour; where that is kept on dark ground, so is the text's."""
    weight = "bold" if word.is_bold else ""
    anchor = word.anchor if word.anchor != "start" else ""
    kept = "" if ground in DARK else _KEPT
    style = {"font-weight": weight, "text-anchor": anchor, "fill": word.colour, "class": kept}
    return _tag("text", {"x": x, "y": y, "font-size": word.size, **style}, word.text)


class Drawing:
    """A picture that grows; what is added last to a layer lies on top in it.

    Its `width` is known before: text that would be too small where it is shown is larger.
    """

    def __init__(self, width: float = SHOWN_W) -> None:
        self._layers: dict[Layer, list[str]] = {layer: [] for layer in Layer}
        self._least = ceil(LEAST_TEXT * max(1.0, width / SHOWN_W) * 10) / 10  # a digit is written

    def size(self, wanted: float) -> float:
        """The size of a text for which this is wanted."""
        return max(wanted, self._least)

    def box(
        self,
        kind: str,
        rect: Rect,
        look: Look,
        words: Sequence[Word],
        *,
        about: str,
        load: tuple[float, str] | None = None,
    ) -> None:
        """A box with a line of text a word, each cut short to fit; `about` is told on pointing.

        `load` is a share of its width from the left, and the colour that this part is filled with.
        """
        room = rect.w - 12
        texts = []
        words = [replace(word, size=self.size(word.size)) for word in words]
        y = rect.y + (rect.h - sum(word.size * 1.25 for word in words)) / 2
        for word in words:
            y += word.size * 1.25
            x = rect.middle if word.anchor == "middle" else rect.x + 6
            shown = replace(word, text=fitted(word.text, word.size, room))
            texts.append(_text(x, y - word.size * 0.3, shown, look.fill))
        title = f"<title>{escape(visible(about, _LONGEST))}</title>"
        shapes = [_rect(rect, look)]
        if load is not None:
            inner = Look(fill=load[1], stroke="none", width=0, radius=max(0, look.radius - 1))
            full = Rect(x=rect.x + 1, y=rect.y + 1, w=(rect.w - 2) * load[0], h=rect.h - 2)
            shapes.append(_rect(full, inner))
        body = "".join((title, *shapes, *texts))
        layer = Layer.PANEL if kind in _GROUNDS else Layer.BOX
        self._layers[layer].append(f'<g class="{kind}">{body}</g>')

    def area(
        self,
        kind: str,
        d: str,
        fill: str,
        words: Sequence[tuple[float, float, Word]],
        *,
        about: str,
    ) -> None:
        """What an SVG path encloses, in few bytes, with texts over it; `about` may be empty."""
        title = f"<title>{escape(visible(about, _LONGEST))}</title>" if about else ""
        shape = f'<path d="{d}" fill="{fill}"/>'
        sized = ((x, y, replace(word, size=self.size(word.size))) for x, y, word in words)
        texts = "".join(_text(x, y, word, fill) for x, y, word in sized)
        self._layers[Layer.BOX].append(f'<g class="{kind}">{title}{shape}{texts}</g>')

    def wire(self, d: str, stroke: Stroke, layer: Layer = Layer.WIRE) -> None:
        """A line along an SVG path."""
        line = {"stroke": stroke.colour, "stroke-width": stroke.width}
        ends = {
            "stroke-dasharray": stroke.dash,
            "stroke-linecap": "butt" if stroke.dash else "round",
            "class": _KEPT if stroke.is_kept else "",
        }
        self._layers[layer].append(_tag("path", {"d": d, "fill": "none", **line, **ends}))

    def label(self, x: float, y: float, word: Word) -> None:
        """A text beside a wire or in a free place; a light edge keeps it legible over lines."""
        text = _text(x, y, replace(word, size=self.size(word.size)))
        edge = ' class="label" paint-order="stroke" stroke="#ffffff" stroke-width="3"'
        self._layers[Layer.LABEL].append(text.replace("<text", f"<text{edge}", 1))

    def ring(self, rect: Rect, stroke: Stroke) -> None:
        """A line around a box, over all but badges."""
        gap = stroke.width / 2 + 1
        outer = Rect(x=rect.x - gap, y=rect.y - gap, w=rect.w + 2 * gap, h=rect.h + 2 * gap)
        look = Look(fill="none", stroke=stroke.colour, width=stroke.width, radius=6)
        self._layers[Layer.LABEL].append(_rect(outer, look))

    def cross(self, rect: Rect, colour: str) -> None:
        """A cross at the right end of a box: what is in it does not work."""
        size, x, y = 8.0, rect.right - 15, rect.y + rect.h / 2 - 4
        d = f"{path((x, y), (x + size, y + size))}{path((x + size, y), (x, y + size))}"
        self._layers[Layer.BADGE].append(
            _tag("path", {"d": d, "stroke": colour, "stroke-width": 2.0})
        )

    def badge(self, x: float, y: float, text: str, colour: str) -> None:
        """A number in a disc, around a point."""
        edge = {"stroke": "#ffffff", "stroke-width": 1.5}
        size = self.size(LEAST_TEXT)
        disc = _tag("circle", {"cx": x, "cy": y, "r": size * 0.8, "fill": colour, **edge})
        word = Word(text=text, size=size, is_bold=True, colour="#ffffff", anchor="middle")
        self._layers[Layer.BADGE].append(f"<g>{disc}{_text(x, y + size * 0.36, word, colour)}</g>")

    def document(self, width: float, height: float, *, title: str, about: str) -> str:
        """The picture as an SVG file with its own ground."""
        ground = Look(fill="#ffffff", stroke="#d0d7de", width=1, radius=8)
        area = Rect(x=0.5, y=0.5, w=width - 1, h=height - 1)
        size = f'width="{_number(width)}" height="{_number(height)}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {_number(width)} {_number(height)}" role="img" '
            f'class="{_CLASS}" font-family="sans-serif">',
            f"<style>{STYLE}</style>",
            f"<title>{escape(visible(title, _LONGEST))}</title>",
            f"<desc>{escape(visible(about, _LONGEST))}</desc>",
            _rect(area, ground),
            *(element for layer in Layer for element in self._layers[layer]),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def path(*points: tuple[float, float]) -> str:
    """The path along straight lines, for `Drawing.wire`."""
    texts = (f"{_number(x)} {_number(y)}" for x, y in points)
    return "M" + " L".join(texts)


def rectangle(rect: Rect) -> str:
    """The path around a rectangle, for `Drawing.area`."""
    x, y, w, h = map(_number, (rect.x, rect.y, rect.w, rect.h))
    return f"M{x} {y}h{w}v{h}h-{w}z"


def curve(points: Sequence[tuple[float, float]]) -> str:
    """The cubic curve from the first of four points to the last."""
    texts = [f"{_number(x)} {_number(y)}" for x, y in points]
    return f"M{texts[0]} C{', '.join(texts[1:])}"


# The first seven are those of Okabe and Ito (Color Universal Design, 2008). Of all twelve any two
# are at least 17 apart in CIELAB, to normal sight and to protanopia and deuteranopia as Machado,
# Oliveira and Fernandes simulate them (IEEE TVCG 15(6), 2009).
PALETTE: Final = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
    "#b2df8a",
    "#664411",
    "#ffaabb",
    "#99ddff",
    "#aa3377",
)
NO_GROUP: Final = "#d0d7de"
_INKS: Final = {
    "#0072b2": "#ffffff",
    "#664411": "#ffffff",
    "#aa3377": "#ffffff",
    "#d55e00": "#000000",
}
_WEIGHT: Final = 10_000


def ink_on(colour: str) -> str:
    """The colour of text that is legible on a colour of the palette."""
    return _INKS.get(colour, "#1f2328")


def group_colours(
    groups: int, places: Iterable[Sequence[int]], lesser: Iterable[Sequence[int]] = ()
) -> tuple[str, ...]:
    """A colour for each group: those of one place differ where there are colours enough.

    `places` are the groups that are together somewhere, such as on a leaf; `lesser` places count
    where those leave a choice.
    """
    if groups <= len(PALETTE):
        return PALETTE[:groups]
    where: defaultdict[int, list[int]] = defaultdict(list)
    weights: list[int] = []
    for weight, some in ((_WEIGHT, places), (1, lesser)):
        for its in some:
            for group in dict.fromkeys(its):
                where[group].append(len(weights))
            weights.append(weight)
    used = [[0] * len(PALETTE) for _ in weights]
    found = []
    for group in range(groups):
        taken = [sum(used[at][one] for at in where[group]) for one in range(len(PALETTE))]
        order = [(group + step) % len(PALETTE) for step in range(len(PALETTE))]
        best = min(order, key=taken.__getitem__)
        for at in where[group]:
            used[at][best] += weights[at]
        found.append(PALETTE[best])
    return tuple(found)
