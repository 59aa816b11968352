"""Boxes and texts read back from a picture, to see that none lies over another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from xml.etree.ElementTree import Element

from hpckit.core.svg import DARK

SVG = "{http://www.w3.org/2000/svg}"
BOXES = {"cpu", "switch", "gpu", "nic", "accelerator", "bar", "synthetic", "sample"}
CHAR_EM = 0.6


@dataclass(frozen=True)
class Box:
    """A box of the picture, and the texts in it."""

    kind: str
    x: float
    y: float
    right: float
    bottom: float
    texts: tuple[Element, ...]

    def overlaps(self, other: Box) -> bool:
        """Whether the two have an area in common."""
        return (
            self.x < other.right
            and other.x < self.right
            and self.y < other.bottom
            and other.y < self.bottom
        )

    def holds(self, other: Box) -> bool:
        """Whether the other lies within."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.right <= self.right
            and other.bottom <= self.bottom
        )

    def words(self) -> str:
        """What is written in it."""
        return " ".join(text.text or "" for text in self.texts)


def boxes(root: Element, *kinds: str) -> list[Box]:
    """The boxes of these kinds, or all but panels."""
    found = []
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        if rect is not None and group.get("class") in (kinds or BOXES):
            x, y, w, h = (float(rect.get(name, "nan")) for name in ("x", "y", "width", "height"))
            texts = tuple(group.iter(f"{SVG}text"))
            found.append(Box(str(group.get("class")), x, y, x + w, y + h, texts))
    return found


def extent(text: Element) -> tuple[float, float]:
    """Where a text begins and ends, with a width of a character that is an average's."""
    width = len(text.text or "") * CHAR_EM * float(text.get("font-size", "0"))
    x = float(text.get("x", "nan"))
    start = x - width / 2 if text.get("text-anchor") == "middle" else x
    return start, start + width


LEAST_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3: of text to what is behind it."""


def faint_texts(root: Element) -> list[str]:
    """The texts whose contrast to their box is too low, on light ground or on dark.

    Text outside of boxes stands on the page, or on a panel.
    """
    boxed: dict[Element, list[str]] = {}
    for group in root.iter(f"{SVG}g"):
        fills = [part.get("fill", "") for part in group if part.tag != f"{SVG}text"]
        for text in group.iter(f"{SVG}text"):
            boxed[text] = [fill for fill in fills if fill.startswith("#")]
    found = []
    for text in root.iter(f"{SVG}text"):
        grounds = boxed.get(text, ["#ffffff", "#f6f8fa"])
        for ground, is_dark in product(grounds, (False, True)):
            ink = text.get("fill", "")
            pair = (ink, ground) if not is_dark else (_dark(ink, text), DARK.get(ground, ground))
            if contrast(*pair) < LEAST_CONTRAST:
                found.append(f"{text.text}: {pair}")
    return found


def _dark(ink: str, text: Element) -> str:
    return ink if "kept" in text.get("class", "") else DARK.get(ink, ink)


def contrast(a: str, b: str) -> float:
    """The contrast of two colours by WCAG 2.2, from 1 to 21."""
    lighter, darker = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
