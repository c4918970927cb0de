"""iNaturalist-Plants-20: the 20 plant species of iNaturalist 2017 with the most images (Van Horn et al. 2018).

The paper names the dataset but not its species. Ours: of `Plantae`, the 20 species with the most images, ties
by name; the choice is written into `dataset.json`.
"""

import re
from collections import Counter
from pathlib import Path

from cual.datasets.archives import members, unpack
from cual.datasets.base import Dataset, Prepared, datasets
from cual.encoders.weights import Download

URL = "https://ml-inat-competition-datasets.s3.amazonaws.com/2017/train_val_images.tar.gz"
IMAGE = re.compile(r"(?:^|/)Plantae/(?P<species>[^/]+)/(?P<file>[^/]+\.(?:jpg|jpeg|png))$", re.IGNORECASE)
SPECIES = 20


def prepare(source: Path, out: Path) -> Prepared:
    matches = (IMAGE.search(member.name) for member in members(source))
    counts = Counter(match["species"] for match in matches if match)
    chosen = most_populous(counts, SPECIES)

    def place(name: str) -> str | None:
        match = IMAGE.search(name)
        return f"{match['species']}/{match['file']}" if match and match["species"] in chosen else None

    rule = f"the {SPECIES} species with the most images"
    return Prepared(unpack(source, out, place), {"rule": rule, "images": chosen})


def most_populous(counts: Counter[str], n: int) -> dict[str, int]:
    """The `n` classes with the most images and how many they have, ties by name.

    >>> most_populous(Counter(b=2, a=2, c=9), 2)
    {'c': 9, 'a': 2}
    """
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:n])


datasets.add("inat-plants-20")(
    Dataset(
        name="inat-plants-20",
        summary="the 20 plant species of iNaturalist 2017 with the most images",
        homepage="https://github.com/visipedia/inat_comp/tree/master/2017",
        licence="iNaturalist 2017's terms: for non-commercial research and education",
        download=Download(URL, md5="7c784ea5e424efaec655bd392f87301f", most_bytes=200 * 10**9),
        by_hand=f"Download {URL} (186 GB); name it, or the folder train_val_images it unpacks to, with --root.",
        prepare=prepare,
        expected="20 classes",
        splits="training and validation images together, as the official archive has them",
    )
)
