"""Folders of images and tables of text with encoders that take no time, and a cache of the tests' own."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import done

COLOURS = {"Forest": (30, 160, 30), "Sea": (20, 20, 200), "Desert": (220, 190, 90)}
WORDS = {"refund": "refund money back", "weather": "rain sun wind cloud", "music": "play song loud band"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUAL_CACHE", str(tmp_path_factory.mktemp("cache")))


@dataclass
class Desk:
    """What a user has: labelled data of two classes, a pool of three, and an agent of the two."""

    folder: Path
    first: Path
    pool: Path
    encoder: str
    flags: tuple[str, ...]
    truth: dict[str, str]

    @property
    def agent(self) -> Path:
        return self.folder / "v0.agent"

    @property
    def next(self) -> Path:
        return self.folder / "v1.agent"

    def fitted(self) -> "Desk":
        done("fit", self.first, "-o", self.agent, "--encoder", self.encoder, *self.flags, "--buffer", 60)
        return self


@pytest.fixture
def pictures(tmp_path: Path) -> Desk:
    """Noisy images of three colours: `first` has two of them in folders, `pool` all, side by side."""
    rng = np.random.default_rng(0)
    truth: dict[str, str] = {}
    (tmp_path / "pool").mkdir()
    for name, colour in COLOURS.items():
        for i in range(25):
            pixels = np.clip(np.array(colour) + rng.normal(0, 20, (6, 6, 3)), 0, 255).astype(np.uint8)
            if name != "Desert":
                (tmp_path / "first" / name).mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels[::-1]).save(tmp_path / "first" / name / f"{i}.png")
            truth[f"{len(truth):03}.png"] = name
            Image.fromarray(pixels).save(tmp_path / "pool" / f"{len(truth) - 1:03}.png")
    (tmp_path / "toy_images.py").write_text(
        "import numpy as np\n"
        "def corners(images):\n"
        "    return [np.asarray(i, float).reshape(-1)[:60] / 255 for i in images]\n"
    )
    encoder = f"python:{tmp_path / 'toy_images.py'}:corners"
    return Desk(tmp_path, tmp_path / "first", tmp_path / "pool", encoder, (), truth).fitted()


@pytest.fixture
def texts(tmp_path: Path) -> Desk:
    """Sentences of three kinds, in tables whose columns are not called as usual."""
    rng = np.random.default_rng(0)
    truth: dict[str, str] = {}
    rows: list[tuple[str, str, str]] = []
    for name, words in WORDS.items():
        for i in range(25):
            key = f"{name[0]}{i:02}"
            truth[key] = name
            rows.append((key, " ".join(rng.choice(words.split(), 8)), name))
    with (tmp_path / "first.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "message", "intent"), *(r for r in rows if r[2] != "music")])
    with (tmp_path / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "message"), *(r[:2] for r in rows)])
    (tmp_path / "toy_text.py").write_text(
        "WORDS = 'refund money back rain sun wind cloud play song loud band'.split()\n"
        "def count(texts):\n"
        "    return [[t.count(w) + len(t) / 1000 for w in WORDS] for t in texts]\n"
    )
    encoder = f"python:{tmp_path / 'toy_text.py'}:count?kind=text"
    flags = ("--text", "message", "--label", "intent", "--id", "key")
    return Desk(tmp_path, tmp_path / "first.csv", tmp_path / "pool.csv", encoder, flags, truth).fitted()
