"""Which colour a method is drawn in: the same in every figure, and no two methods of a figure alike."""

import colorsys
import hashlib
from collections.abc import Collection

OWN = {
    "oracle": "#8a8f94", "oracle-ridge": "#4d5257", "oracle-novel": "#b9a48f",
    "cual": "#d1495b", "cual-plus": "#f08a3c",
    "al-top": "#8a5a44", "al-random": "#6f9c3d", "al-oneshot": "#c46ba3",
    "al-oneshot-both": "#5b1f47",
    "only-al": "#5d6fb3", "only-al-random": "#a58b2f", "only-al-8x": "#4c9bb0",
    "er-entropy": "#2b83c6", "er-random": "#e0b51f", "er-entropy-oneshot": "#7fb2dd", "er-margin": "#1f5c8b",
    "er-entropy-top": "#9a5d7e", "pseudo-er-entropy": "#3a9d6e", "pseudo-er-margin": "#5a6118",
    "pseudo-er-entropy-all": "#123f2c", "pseudo-er-margin-all": "#b7cf3a",
    "ccic": "#8367c7", "incdfm": "#1cb8a0",
}  # fmt: skip
APART = 40.0
"""Least distance of two colours, of 442 from black to white: less, an eye takes for the same line."""
_GOLDEN = 0.618034


def distance(one: str, other: str) -> float:
    """How far two colours are apart, as points of red, green and blue.

    >>> distance("#000000", "#0000ff")
    255.0
    """
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def _further(n: int) -> list[str]:
    """Colours for methods that have none of their own, apart from those and from each other."""
    found: list[str] = []
    place = 0
    while len(found) < n:
        lightness = (0.42, 0.6, 0.3)[place % 3]
        rgb = colorsys.hls_to_rgb(place * _GOLDEN % 1, lightness, 0.62)
        colour = "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
        if all(distance(colour, other) >= APART for other in (*OWN.values(), *found)):
            found.append(colour)
        place += 1
    return found


OTHERS = _further(16)


def colours(methods: Collection[str]) -> dict[str, str]:
    """A colour for each method of a figure; one without its own gets one by its name, or the next that is free.

    >>> colours(["cual", "mine"])["cual"]
    '#d1495b'
    """
    given = {name: OWN[name] for name in methods if name in OWN}
    for name in sorted({*methods} - {*OWN}):
        start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
        wanted = [OTHERS[(start + i) % len(OTHERS)] for i in range(len(OTHERS))]
        free = (colour for colour in wanted if colour not in given.values())
        given[name] = next(free, wanted[0])
    return given
