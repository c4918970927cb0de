"""Three files of features that nothing was chosen on, from what Debian and PyPI carry: is it as good there?

    python benchmarks/unseen.py OUT [--data ../shared/data]
    python benchmarks/cual_plus.py bounds,rounds --files sections,letters,looks --data OUT --seeds 0,1,2,3,4

sections-minilm.npz   what Debian's packages say that they are; classes are the sections of the archive.
                      Sections of at least 60 sentences, 400 of each at most: classes of natural frequency.
letters-lite0.npz     44 characters, each drawn in the same 260 fonts of Debian, under an image encoder.
looks-lite0.npz       PACS of ../shared/data, where each kind of thing in each look is a class of its own.

Needs apt (with its lists: apt-get update), dpkg and some hundred megabytes of downloads, removed again.
What is there already is not made again. Archives change: the number of rows and classes is printed.
"""

import argparse
import csv
import gzip
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

CUAL = Path(sys.executable).with_name("cual")
UNCLEAR = {"oldlibs", "metapackages", "tasks", "debug", "libdevel", "misc", "devel", "doc"}
"""Sections that say how a package is used, not what it is about."""
LEAST, MOST = 60, 400
"""Sentences of a section."""
CHARACTERS = "ABCDEFGHJKLMNPQRSTabdefghijknqrt23456789&@?$"
"""Without those that look alike in many fonts."""
FONTS = 260
LARGEST = 2**21
"""Bytes of a package of fonts: larger ones hold scripts of thousands of characters."""
NO_CHARACTER = "\uffff"


def said(command: list[str], folder: Path | None = None) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout


# -- sections --------------------------------------------------------------------------------------------------


def paragraphs() -> Iterator[dict[str, str]]:
    """What apt knows of each package."""
    for paragraph in said(["apt-cache", "dumpavail"]).split("\n\n"):
        yield dict(re.findall(r"^([A-Z][A-Za-z-]*): (.+)$", paragraph, flags=re.MULTILINE))


def sections() -> list[tuple[str, str]]:
    """Sentences and their sections."""
    sentences = defaultdict[str, set[str]](set)
    for package in paragraphs():
        sentence = package.get("Description") or package.get("Description-en")
        if sentence and "Section" in package:
            sentences[package["Section"].split("/")[-1]].add(sentence)
    rng = random.Random(0)
    return [
        (sentence, section)
        for section, some in sorted(sentences.items())
        if len(some) >= LEAST and section not in UNCLEAR
        for sentence in rng.sample(sorted(some), min(MOST, len(some)))
    ]


# -- letters ---------------------------------------------------------------------------------------------------


def fonts(folder: Path) -> list[Path]:
    """Fonts that draw all of the characters, two of a family at most."""
    small = [
        package["Package"]
        for package in paragraphs()
        if package.get("Package", "").startswith("fonts-") and int(package.get("Size", "0")) <= LARGEST
    ]
    _ = said(["apt-get", "download", "-qq", *sorted(set(small))], folder)
    for package in sorted(folder.glob("*.deb")):
        _ = said(["dpkg", "-x", package.name, "."], folder)
        package.unlink()
    families = defaultdict[str, list[Path]](list)
    for file in sorted(folder.rglob("*.[ot]tf")):
        families[re.split(r"[-.]", file.name.lower())[0][:8]].append(file)
    rng = random.Random(0)
    chosen = [file for _, some in sorted(families.items()) for file in rng.sample(some, len(some))[:2]]
    return [file for file in chosen if draws_all(file)][:FONTS]


def draws_all(file: Path) -> bool:
    try:
        font = ImageFont.truetype(str(file), 72)
        missing = bytes(font.getmask(NO_CHARACTER))
        drawn = [bytes(font.getmask(character)) for character in CHARACTERS]
    except (OSError, ValueError):  # a broken font, or one of bitmaps
        return False
    return missing not in drawn and len(set(drawn)) == len(drawn)


def draw(character: str, file: Path, picture: Path) -> None:
    """One character in the middle of a white square."""
    font, image = ImageFont.truetype(str(file), 72), Image.new("RGB", (112, 112), "white")
    pen = ImageDraw.Draw(image)
    left, top, right, bottom = pen.textbbox((0, 0), character, font=font)
    pen.text((56 - (left + right) / 2, 56 - (top + bottom) / 2), character, font=font, fill="black")
    image.save(picture)


# -- all three -------------------------------------------------------------------------------------------------


def make_sections(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "sections.csv.gz"
        with gzip.open(table, "wt", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([("text", "label"), *sections()])
        _ = said([str(CUAL), "embed", str(table), "-o", str(out), "--encoder", "all-minilm-l6-v2"])


def make_letters(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        some = fonts(Path(folder))
        for character in CHARACTERS:
            pictures = Path(folder) / "pictures" / f"{ord(character):04x}"
            pictures.mkdir(parents=True)
            for number, file in enumerate(some):
                draw(character, file, pictures / f"{number:03}.png")
        pictures = Path(folder) / "pictures"
        _ = said([str(CUAL), "embed", str(pictures), "-o", str(out), "--encoder", "efficientnet-lite0"])


def make_looks(out: Path, data: Path) -> None:
    with np.load(data / "pacs-lite0.npz") as arrays:
        kinds = np.char.add(np.char.add(arrays["y"], " "), arrays["domain"])
        np.savez(out, X=arrays["X"], y=kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, make in {
        "sections-minilm": make_sections,
        "letters-lite0": make_letters,
        "looks-lite0": lambda out: make_looks(out, args.data),
    }.items():
        out = args.out / f"{name}.npz"
        if not out.exists():
            make(out)
        with np.load(out) as arrays:
            counts = np.unique(arrays["y"], return_counts=True)[1]
        print(
            f"{out}: {counts.sum()} rows of {len(counts)} classes, {counts.min()} to {counts.max()}", flush=True
        )


if __name__ == "__main__":
    main()
