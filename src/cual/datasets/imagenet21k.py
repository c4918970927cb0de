"""ImageNet-21K-OOD: the 50 most populous synsets outside ImageNet-1K, 500 images each (paper, appendix 4.2.2).

Which synsets those are is computed from the local copy's own lists, and written into `dataset.json`: the paper
promises its list but does not print it, and releases of ImageNet-21K differ in what they hold. No list is kept
here, because none can be computed without the images. The one public table of all synsets that we found counts
addresses (`classes_in_imagenet.csv` of github.com/mf1024/ImageNet-Datasets-Downloader), and those are not the
images: it has 1,133 for tench, of which ImageNet-1K alone holds 1,300.
"""

import re
from collections import Counter
from importlib import resources
from pathlib import Path, PurePosixPath

import numpy as np

from cual.datasets.archives import Member, members, put
from cual.datasets.base import Dataset, Prepared, datasets
from cual.datasets.plants import most_populous
from cual.errors import BadFile
from cual.types import Row

SYNSETS, IMAGES, SEED = 50, 500, 0
SYNSET = re.compile(r"n\d{8}")


def imagenet1k() -> frozenset[str]:
    """The 1,000 synsets of ImageNet-1K."""
    return frozenset(
        resources.files("cual.datasets").joinpath("imagenet1k.txt").read_text(encoding="utf-8").split()
    )


def prepare(source: Path, out: Path) -> Prepared:
    known = imagenet1k()
    outside = {wnid: place for wnid, place in _synsets(source).items() if wnid not in known}
    counts = Counter({wnid: len(_names(place)) for wnid, place in outside.items()})
    chosen = {wnid: n for wnid, n in most_populous(counts, SYNSETS).items() if n >= IMAGES}
    if len(chosen) < SYNSETS:
        raise BadFile(
            f"{source} has {len(chosen)} synsets outside ImageNet-1K with {IMAGES} images or more; "
            f"{SYNSETS} are needed"
        )
    classes: Counter[str] = Counter()
    for wnid in chosen:
        kept = drawn(_names(outside[wnid]), wnid)
        for member in members(outside[wnid]):
            name = PurePosixPath(member.name).name
            if name in kept:
                put(member, out / wnid / name)
                classes[wnid] += 1
    rule = f"the {SYNSETS} synsets with the most images that are not in ImageNet-1K; {IMAGES} images each"
    selection: Row = {"rule": rule, "seed": SEED, "synsets": chosen}
    return Prepared(classes, selection)


def drawn(names: list[str], wnid: str) -> frozenset[str]:
    """500 of a synset's images, the same ones for the same names whatever their order."""
    rng = np.random.default_rng([SEED, int(wnid[1:])])
    return frozenset(rng.choice(np.array(sorted(names)), IMAGES, replace=False).tolist())


def _names(place: Path) -> list[str]:
    """Names of a synset's images."""

    def wanted(member: Member) -> bool:
        return member.name.upper().endswith((".JPEG", ".JPG", ".PNG"))

    return [PurePosixPath(m.name).name for m in members(place) if wanted(m)]


def _synsets(root: Path, deep: int = 3) -> dict[str, Path]:
    """Synsets below a folder, each a folder of images or a tar; their 13 million images are not listed here."""
    synsets: dict[str, Path] = {}
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        name = path.name.removesuffix(".tar")
        if SYNSET.fullmatch(name) and (path.is_dir() or path.suffix == ".tar"):
            synsets.setdefault(name, path)
        elif deep and path.is_dir():
            synsets = _synsets(path, deep - 1) | synsets
    return synsets


datasets.add("im21k-ood")(
    Dataset(
        name="im21k-ood",
        summary="the 50 most populous synsets of ImageNet-21K outside ImageNet-1K, 500 images each",
        homepage="https://image-net.org/download.php",
        licence="ImageNet's terms of access: for non-commercial research, after registration",
        download=None,
        by_hand="Register at https://image-net.org/download.php, download winter21_whole.tar.gz (1.1 TB, MD5 "
        "ab313ce03179fd803a401b02c651c0a2) or single synsets, unpack it, and name the folder with n*.tar or "
        "n*/ in it with --root.",
        prepare=prepare,
        expected="50 classes, 25,000 images",
        splits="none official: 500 images of each class, drawn with seed 0",
    )
)
