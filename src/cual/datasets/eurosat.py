"""EuroSAT RGB: 27,000 satellite images of 64 × 64 in 10 classes (Helber et al. 2019)."""

import re
from pathlib import Path

from cual.datasets.archives import unpack
from cual.datasets.base import Dataset, Prepared, datasets
from cual.encoders.weights import Download

URL = "https://madm.dfki.de/files/sentinel/EuroSAT.zip"
IMAGE = re.compile(r"(?:^|/)(?P<class>[A-Z][A-Za-z]+)/(?P<file>(?P=class)_\d+\.jpg)$")


def place(name: str) -> str | None:
    """
    >>> place("2750/Forest/Forest_12.jpg"), place("2750/readme.txt")
    ('Forest/Forest_12.jpg', None)
    """
    match = IMAGE.search(name)
    return f"{match['class']}/{match['file']}" if match else None


def prepare(source: Path, out: Path) -> Prepared:
    return Prepared(unpack(source, out, place))


datasets.add("eurosat")(
    Dataset(
        name="eurosat",
        summary="EuroSAT RGB, 64 × 64 satellite images of Europe",
        homepage="https://github.com/phelber/EuroSAT",
        licence="MIT",
        # The SHA-256 is TensorFlow Datasets' (tensorflow_datasets/url_checksums/eurosat.txt).
        download=Download(
            URL,
            sha256="8ebea626349354c5328b142b96d0430e647051f26efc2dc974c843f25ecf70bd",
            most_bytes=95 * 10**6,
        ),
        by_hand=f"Download {URL} (90 MB), name its folder with --root.",
        prepare=prepare,
        expected="10 classes, 27,000 images",
        splits="none official: all images",
    )
)
