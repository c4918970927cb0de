"""Small pictures: pixels only, encoded anew. Where they come from and where they lie is others' business."""

import io

from PIL import Image

LONGEST_SIDE = 512
QUALITY = 85
AS_IT_IS = 64
"""Pictures up to this side are kept to the pixel."""


def webp(image: Image.Image) -> bytes:
    """A picture as people see it.

    >>> webp(Image.new("RGB", (2000, 1000)))[8:12]
    b'WEBP'
    """
    image = image.convert("RGB")
    if max(image.size) > LONGEST_SIDE:
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=QUALITY, lossless=max(image.size) <= AS_IT_IS, method=2)
    return out.getvalue()
