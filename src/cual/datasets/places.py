"""Places365-OOD: the images of Places365 that MOS chose to share no class with ImageNet-1K (Huang & Li 2021).

The archive has all images in one folder; a file's name says its class (`b_badlands_00000038.jpg`).
"""

import re
from pathlib import Path

from cual.datasets.archives import unpack
from cual.datasets.base import Dataset, Prepared, datasets
from cual.encoders.weights import Download

URL = "http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/Places.tar.gz"
IMAGE = re.compile(r"(?:^|/)[a-z]_(?P<class>[a-z0-9_-]+?)_(?P<number>\d{8})\.jpg$")


def place(name: str) -> str | None:
    """
    >>> place("Places/images/w_wheat_field_00004990.jpg"), place("Places/labels.txt")
    ('wheat_field/00004990.jpg', None)
    """
    found = IMAGE.search(name)
    return f"{found['class']}/{found['number']}.jpg" if found else None


def prepare(source: Path, out: Path) -> Prepared:
    return Prepared(unpack(source, out, place))


datasets.add("places365-ood")(
    Dataset(
        name="places365-ood",
        summary="Places365 without what overlaps with ImageNet-1K, as curated for MOS",
        homepage="https://github.com/deeplearning-wisc/large_scale_ood",
        licence="Places365's terms: for research; the images belong to their photographers",
        # Its publishers tell no hash; the MD5 is the one that public loaders of this archive use.
        download=Download(URL, md5="b5cb5eba2754ae2a28beea8718db699a", most_bytes=2 * 10**9),
        by_hand=f"Download {URL}, name its folder with --root.",
        prepare=prepare,
        expected="about 50 classes, about 10,000 images (the paper counts 51 and 9,822)",
    )
)
