"""Decoding: every mode and orientation, and nothing that a broken or hostile file can do but be refused."""

import io
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from cual.encoders import images
from cual.encoders.images import ImageInput, open_image
from cual.errors import BadImage


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


def picture(width=60, height=40, seed=0):
    """Smooth, so that compression and resampling leave it recognisable."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4, 6, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_formats(kind):
    image = open_image(saved(picture(), kind))
    assert (image.mode, image.size) == ("RGB", (60, 40))
    assert abs(np.asarray(image, float) - np.asarray(picture(), float)).mean() < 12


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_modes_all_become_rgb(mode):
    grey = picture().convert("L")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    elif mode in ("I", "F"):
        image = Image.fromarray(np.asarray(grey).astype(np.int32 if mode == "I" else np.float32))
    else:
        image = picture().convert(mode)
    kind = "TIFF" if mode in ("F", "CMYK", "YCbCr", "I") else "PNG"
    decoded = open_image(saved(image, kind))
    assert decoded.mode == "RGB"
    expected = np.asarray(
        grey if mode in ("I;16", "I", "F", "L", "LA") else picture().convert(mode).convert("RGB").convert("L")
    )
    assert abs(np.asarray(decoded.convert("L"), float) - expected).mean() < 3


def test_what_is_transparent_becomes_white():
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert np.asarray(open_image(saved(clear))).min() == 255
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9] + [0] * 762)
    assert np.asarray(open_image(saved(palette, transparency=1))).min() == 255


def test_a_transparent_colour_of_an_rgb_image_becomes_white():
    image = Image.new("RGB", (4, 4), (9, 8, 7))
    image.putpixel((0, 0), (200, 0, 0))
    decoded = np.asarray(open_image(saved(image, transparency=(9, 8, 7))))
    assert decoded[3, 3].tolist() == [255, 255, 255]
    assert decoded[0, 0].tolist() == [200, 0, 0]


@pytest.mark.parametrize("top", [200, 300, 65535])
def test_all_16_bit_images_are_scaled_alike(top):
    """However dark one is: else two of the same brightness would come out 257 times apart."""
    image = Image.fromarray(np.full((4, 4), top, np.uint16))
    assert np.asarray(open_image(saved(image))).max() == round(top / 257)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_several_frames_the_first_is_taken(kind):
    frames = [picture(seed=i) for i in range(3)]
    held = saved(frames[0], kind, save_all=True, append_images=frames[1:])
    distances = [abs(np.asarray(open_image(held), float) - np.asarray(frame, float)).mean() for frame in frames]
    assert distances[0] < 12 < min(distances[1:])


@pytest.mark.parametrize("exif", [b"garbage", b"II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" * 3])
def test_broken_exif_data_spoils_no_image(exif):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in ("PNG", "WEBP", "JPEG"):
            assert open_image(saved(picture(), kind, exif=exif)).size == (60, 40)


def test_huge_images_are_decoded_one_at_a_time(monkeypatch):
    monkeypatch.setattr(images, "HUGE", 60 * 40 - 1)
    with ThreadPoolExecutor(1) as pool:
        with images._one_at_a_time:
            waiting = pool.submit(open_image, saved(picture()))
            assert open_image(saved(picture(30, 20))).size == (30, 20)  # smaller ones need not wait
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
        assert waiting.result(10).size == (60, 40)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(orientation):
    upright = picture()
    stored = {
        1: upright,
        2: upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: upright.transpose(Image.Transpose.ROTATE_180),
        4: upright.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        7: upright.transpose(Image.Transpose.TRANSVERSE),
        8: upright.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[274] = orientation
    decoded = open_image(saved(stored, "PNG", exif=exif))
    assert np.array_equal(np.asarray(decoded), np.asarray(upright))


def bomb(side):
    """A small PNG that says it is huge."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 10_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cannot identify"),
        (b"not an image", "cannot identify"),
        (saved(picture(), "JPEG").getvalue()[:400], "truncated|Truncated|Error"),
        (saved(picture()).getvalue()[:300], "truncated|Truncated|Error"),
        (bomb(100_000), "bomb"),
        (bomb(14_000), "exceeds limit"),
        (bomb(5_000), "Error"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot identify"),
    ],
    ids=["empty", "text", "cut jpeg", "cut png", "bomb", "large", "lying header", "postscript"],
)
def test_bad_files_are_refused_by_name(data, said):
    with pytest.raises(BadImage, match=said):
        open_image(io.BytesIO(data))


def test_a_limit_can_be_set():
    with pytest.raises(BadImage, match="60 × 40 pixels are more than the 100 allowed"):
        open_image(saved(picture()), most_pixels=100)


def test_huge_jpegs_are_decoded_at_a_reduced_size():
    huge = picture(6000, 5000)
    decoded = open_image(saved(huge, "JPEG"), shorter=256)
    assert min(decoded.size) < 2500
    assert min(decoded.size) >= 4 * 256
    given = ImageInput()
    near, exact = given.pixels(decoded).astype(float), given.pixels(huge).astype(float)
    assert abs(near - exact).mean() < 2


@pytest.mark.parametrize("size", [(60, 40), (40, 60), (256, 256), (300, 1000), (1, 1), (3, 700), (225, 224)])
@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_pixels_are_resize_then_centre_crop(size, resample):
    """The same as torchvision's Resize(256), CenterCrop(224), written out."""
    image = picture(*size)
    width, height = size
    full = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    resized = image.resize(full, Image.Resampling[resample.upper()])
    left, top = round((full[0] - 224) / 2), round((full[1] - 224) / 2)
    expected = np.asarray(resized.crop((left, top, left + 224, top + 224)), float)
    found = ImageInput(resample=resample).pixels(image).astype(float)
    assert found.shape == (224, 224, 3)
    assert abs(found - expected).max() <= 1


def test_a_ribbon_takes_no_memory_and_small_crops_are_padded():
    assert ImageInput().pixels(Image.new("RGB", (1, 50_000), "red")).shape == (224, 224, 3)
    padded = ImageInput(resize=100, crop=224).pixels(Image.new("RGB", (50, 50), "white"))
    assert padded[0, 0].tolist() == [0, 0, 0]
    assert padded[112, 112].tolist() == [255, 255, 255]
    assert ImageInput(resize=32, crop=32, squash=True).pixels(picture(60, 20)).shape == (32, 32, 3)
