"""Places365-OOD: the images of Places365 that MOS chose to share no class with ImageNet-1K (Huang & Li 2021).

The archive has all images in one folder; a file's name says its class (`b_badlands_00000038.jpg`). About 2 % of
MOS's list are images of Places365's validation set, whose names (`Places365_val_00012755.jpg`) say no class.
They are left out and counted; that is probably why the paper has 9,822 of MOS's 10,000.
"""

import re
from importlib import resources
from pathlib import Path

from cual.datasets.archives import unpack
from cual.datasets.base import Dataset, Prepared, datasets
from cual.encoders.weights import Download
from cual.types import Row

URL = "http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/Places.tar.gz"
IMAGE = re.compile(r"(?:^|/)[a-z]_(?P<class>[a-z0-9_-]+?)_(?P<number>\d{8})\.jpg$")


def mos_classes() -> frozenset[str]:
    """MOS's 50 classes.

    They are from `data_lists/places_selected_list.txt` of github.com/deeplearning-wisc/large_scale_ood. Of its
    10,000 lines we read 900, so whatever else the archive has is told in `dataset.json`.
    """
    return frozenset(
        resources.files("cual.datasets").joinpath("places_mos.txt").read_text(encoding="utf-8").split()
    )


def place(name: str) -> str | None:
    """
    >>> place("Places/images/w_wheat_field_00004990.jpg"), place("Places/labels.txt")
    ('wheat_field/00004990.jpg', None)
    """
    match = IMAGE.search(name)
    return f"{match['class']}/{match['number']}.jpg" if match else None


def prepare(source: Path, out: Path) -> Prepared:
    nameless: list[str] = []

    def noted(name: str) -> str | None:
        target = place(name)
        if target is None and name.endswith(".jpg") and "/." not in name:
            nameless.append(name)
        return target

    classes, known = unpack(source, out, noted), mos_classes()
    here = {name.replace("-", "_") for name in classes}
    selection: Row = {
        "rule": "MOS's classes, as the names of the files say them",
        "left out, no class in the name": len(nameless),
        "in MOS's list, not here": sorted(known - here),
        "here, not in MOS's list": sorted(here - known),
    }
    return Prepared(classes, selection)


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
        expected="50 classes, about 9,800 images (the paper counts 51 and 9,822)",
        splits="none official: all images whose name says their class",
    )
)
