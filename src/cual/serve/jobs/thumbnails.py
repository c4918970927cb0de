"""Pictures for people: pixels only, encoded anew. Where they come from and lie is others' business."""

import io

from PIL import Image

LONGEST_SIDE = 512
LARGE_SIDE = 1600
"""Of the picture that is seen when somebody wants to see more."""
QUALITY = 85
AS_IT_IS = 64
"""Pictures up to this side are kept to the pixel."""


def webps(image: Image.Image) -> tuple[bytes, bytes]:
    """A picture as people see it, small, and large where there is more to see; else no bytes.

    >>> small, large = webps(Image.new("RGB", (2000, 1000)))
    >>> small[8:12], large[8:12], webps(Image.new("RGB", (512, 300)))[1]
    (b'WEBP', b'WEBP', b'')
    """
    image = image.convert("RGB")
    if max(image.size) <= LONGEST_SIDE:
        return _webp(image), b""
    image.thumbnail((LARGE_SIDE, LARGE_SIDE))
    large = _webp(image)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    return _webp(image), large


def _webp(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "WEBP", quality=QUALITY, lossless=max(image.size) <= AS_IT_IS, method=2)
    return out.getvalue()
