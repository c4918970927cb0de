"""CIFAR-100 by superclass: 20 labels, the 50,000 training images (Krizhevsky 2009), from the binary version."""

from collections import Counter
from pathlib import Path, PurePosixPath

import numpy as np

from cual.datasets.archives import members
from cual.datasets.base import Dataset, Prepared, datasets
from cual.encoders.weights import Download
from cual.errors import DamagedFile

URL = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
WANTED = ("train.bin", "coarse_label_names.txt", "fine_label_names.txt")
RECORD = 2 + 3 * 32 * 32
"""Bytes of one image: its superclass, its class, then red, green and blue."""


def prepare(source: Path, out: Path) -> Prepared:
    from PIL import Image

    files: dict[str, bytes] = {}
    for member in members(source):
        name = PurePosixPath(member.name).name
        if name in WANTED and name not in files:
            files[name] = member.read()
    if len(files) < len(WANTED):
        return Prepared(Counter())
    coarse, fine = (
        files[f"{kind}_label_names.txt"].decode(errors="replace").split() for kind in ("coarse", "fine")
    )
    if any("/" in name or name.startswith(".") for name in (*coarse, *fine)):
        raise DamagedFile(f"{source}: a class is called like a path")
    data = np.frombuffer(files["train.bin"], np.uint8)
    if len(data) % RECORD or (len(coarse), len(fine)) != (20, 100):
        raise DamagedFile(f"{source}: train.bin is {len(data):,} bytes, not a multiple of {RECORD}")
    records = data.reshape(-1, RECORD)
    if len(records) and (records[:, 0].max() >= 20 or records[:, 1].max() >= 100):
        raise DamagedFile(f"{source}: train.bin names classes that there are not")
    classes: Counter[str] = Counter()
    for i, record in enumerate(records):
        label = coarse[record[0]]
        folder = out / label
        folder.mkdir(exist_ok=True)
        pixels = record[2:].reshape(3, 32, 32).transpose(1, 2, 0)
        Image.fromarray(np.ascontiguousarray(pixels)).save(folder / f"{i:05d}-{fine[record[1]]}.png")
        classes[label] += 1
    return Prepared(classes)


datasets.add("cifar100-super")(
    Dataset(
        name="cifar100-super",
        summary="CIFAR-100's training images by superclass; file names hold the fine class",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; cite Krizhevsky (2009)",
        # The SHA-256 is TensorFlow Datasets' (tensorflow_datasets/url_checksums/cifar100.txt).
        download=Download(
            URL,
            sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            most_bytes=169 * 10**6,
        ),
        by_hand=f"Download {URL} (161 MB), name its folder with --root.",
        prepare=prepare,
        expected="20 superclasses, 50,000 images",
        splits="the official training images; the 10,000 of test.bin are left out, as in the paper",
    )
)
