"""Boxes and texts read back from a picture, to see that none lies over another."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

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
