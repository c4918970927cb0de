"""Images: decode what may be broken, huge or hostile, then resize and crop exactly as a network wants it."""

import math
import threading
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cual.errors import BadImage, MissingPackage
from cual.types import Row

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"))
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""Decoders that files may reach: each one more is one more to trust with files of strangers."""
MOST_PIXELS = 178_956_970
"""Pillow's own limit for a certain decompression bomb: 1/2 GiB of RGB."""
HUGE = 30_000_000
"""Images of more pixels are decoded one at a time: one in every thread could take all memory there is."""
DRAFT = 4
"""A JPEG is decoded at a reduced size as long as that leaves this many times what the network sees."""

Pixels = npt.NDArray[np.uint8]
Resample = Literal["bilinear", "bicubic", "lanczos", "nearest"]
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class ImageInput:
    """How a network wants its images: resized, cropped at the centre, scaled as (x / 255 − mean) / std.

    `resize` is the length of the shorter side, or with `squash` of both; `crop` is the side of the square.

    >>> from PIL import Image
    >>> ImageInput(resize=8, crop=4).pixels(Image.new("RGB", (32, 16), "red"))[0, 0].tolist()
    [255, 0, 0]
    """

    resize: int = 256
    crop: int = 224
    resample: Resample = "bicubic"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    squash: bool = False

    def pixels(self, image: "Image.Image") -> Pixels:
        """(crop, crop, 3) bytes of an RGB image."""
        from PIL import Image

        width, height = image.size
        if self.squash:
            size = (self.resize, self.resize)
        elif width <= height:
            size = (self.resize, max(1, int(self.resize * height / width)))
        else:
            size = (max(1, int(self.resize * width / height)), self.resize)
        left, top = (round((side - self.crop) / 2) for side in size)
        # Only what the crop keeps is resampled: a panorama would otherwise take memory without bound.
        scale = (width / size[0], height / size[1])
        x0, y0 = max(0, left), max(0, top)
        x1, y1 = min(size[0], left + self.crop), min(size[1], top + self.crop)
        box = (x0 * scale[0], y0 * scale[1], x1 * scale[0], y1 * scale[1])
        kept = image.resize((x1 - x0, y1 - y0), Image.Resampling[self.resample.upper()], box=box)
        if kept.size == (self.crop, self.crop):
            return np.asarray(kept)
        canvas = Image.new("RGB", (self.crop, self.crop))
        canvas.paste(kept, (x0 - left, y0 - top))
        return np.asarray(canvas)

    def to_json(self) -> Row:
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std), "jpeg_draft": DRAFT}


def open_image(file: Path | IO[bytes], shorter: int = 256, most_pixels: int = MOST_PIXELS) -> "Image.Image":
    """Decode an image as upright RGB, or raise `BadImage` whatever is wrong with it.

    Parameters
    ----------
    file
        Path or open file.
    shorter
        The shorter side that is needed; a JPEG far larger than that is decoded at a reduced size.
    most_pixels
        Larger images are refused before they are decoded.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingPackage("images need pillow: pip install 'cual[encoders]'") from error
    try:
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if width * height > most_pixels:
                raise BadImage(f"{width} × {height} pixels are more than the {most_pixels:,} allowed")
            _reduce(image, shorter)
            with _one_at_a_time if image.width * image.height > HUGE else nullcontext():
                image.load()
                return _rgb(_upright(image))
    except BadImage:
        raise
    except Image.DecompressionBombError as error:
        raise BadImage(str(error)) from error
    except (MemoryError, RecursionError) as error:
        raise BadImage(f"takes too much memory to decode: {error!r}") from error
    except Exception as error:  # decoders raise what they like at broken files
        raise BadImage(f"{type(error).__name__}: {error}"[:300]) from error


def _reduce(image: Any, shorter: int) -> None:
    """Let the JPEG decoder drop detail that resizing would throw away."""
    if image.format in ("JPEG", "MPO"):  # an MPO is opened as the JPEG that it begins with
        factor = min(image.size) / (DRAFT * shorter)
        if factor >= 2:
            wanted = tuple(math.ceil(side / factor) for side in image.size)
            image.draft(None, wanted)


def _upright(image: "Image.Image") -> "Image.Image":
    """The image as its EXIF orientation says, or as it is where the EXIF data is broken."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # of metadata alone; the pixels are there already
        return image


def _rgb(image: "Image.Image") -> "Image.Image":
    """RGB of any mode; what is transparent becomes white, 16 and 32 bit are scaled down, not clipped."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        whole = np.asarray(image, dtype=np.float32) / 257
        return Image.fromarray(whole.round().astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        return Image.fromarray(_eight_bit(np.asarray(image, dtype=np.float32))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bit(values: npt.NDArray[np.float32]) -> Pixels:
    """Bytes of numbers of which nobody says how large they can be: 1, 255, 65535 or their largest is white."""
    known = values[np.isfinite(values)]
    top = float(known.max()) if known.size else 0.0
    full = next((limit for limit in (1.0, 255.0, 65535.0) if top <= limit), top)
    return (np.clip(np.nan_to_num(values, posinf=full), 0, full) * (255 / full)).round().astype(np.uint8)
