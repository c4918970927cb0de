"""Every table and figure of the paper from stand-ins of its data and weights, in their layouts, end to end."""

import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from cual.bench.paper import paper_tables
from cual.bench.report import report
from cual.bench.reproduction import (
    EXHIBITS,
    SIZES,
    Layout,
    features_of,
    needed,
    settings_of,
    size_of,
    unreachable,
)
from cual.cli import app
from cual.datasets import datasets, imagenet21k
from cual.encoders.resnet import SWAV, ResNet50
from cual.encoders.vit import DINO, ViTS16

PAGE = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
IMAGES = 6
"""Of each class of a stand-in."""


def command(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", "paper", *map(str, words)], terminal_width=200)
    return result.exit_code, re.sub(r"\s+", " ", result.output + str(result.exception or ""))


def picture(class_: int, number: int) -> bytes:
    rng = np.random.default_rng([class_, number])
    shade = np.random.default_rng(class_).integers(0, 200, (1, 1, 3))
    file = io.BytesIO()
    pixels = (shade + rng.integers(0, 56, (16, 16, 3))).astype(np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def letters(number: int) -> str:
    return "class" + "abcdefghijklmnopqrstuvwxyz"[number]


def tarred(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def stand_ins(sources: Path) -> None:
    """The five datasets as their publishers lay them out, a few small images each."""
    sources.mkdir(parents=True)
    with zipfile.ZipFile(sources / "eurosat-small.zip", "w") as archive:
        for c in range(3):
            name = letters(c).capitalize()
            for i in range(IMAGES):
                archive.writestr(f"2750/{name}/{name}_{i}.jpg", picture(c, i))
    rng = np.random.default_rng(0)
    records = [bytes([c, c]) + rng.integers(c, c + 99, 3072, np.uint8).tobytes() for c in range(5)] * IMAGES
    names = {
        f"cifar-100-binary/{kind}_label_names.txt": "\n".join(f"{kind}{i}" for i in range(n)).encode()
        for kind, n in (("coarse", 20), ("fine", 100))
    }
    tarred(sources / "cifar100-super-small.tar.gz", {**names, "cifar-100-binary/train.bin": b"".join(records)})
    tarred(
        sources / "places365-ood-small.tar.gz",
        {f"Places/images/c_{letters(c)}_{i:08}.jpg": picture(c, i) for c in range(11) for i in range(IMAGES)},
    )
    for c in range(11):
        folder = sources / "im21k-ood" / f"n{90000000 + c}"
        folder.mkdir(parents=True)
        for i in range(IMAGES):
            (folder / f"{folder.name}_{i}.JPEG").write_bytes(picture(c, i))
    for c in range(5):
        folder = sources / "inat-plants-20" / "train_val_images" / "Plantae" / f"Species {c}"
        folder.mkdir(parents=True)
        for i in range(IMAGES):
            (folder / f"{i}.jpg").write_bytes(picture(c, i))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    stand_ins(folder / "sources")
    (folder / "weights").mkdir()
    torch.manual_seed(0)
    swav = {f"module.{k}": v for k, v in ResNet50().state_dict().items()}
    torch.save({**swav, "module.prototypes.weight": torch.zeros(2, 2)}, folder / "weights" / SWAV.file)
    torch.save(ViTS16().state_dict(), folder / "weights" / DINO.file)
    return folder


@pytest.fixture
def small_imagenet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has 11 synsets of 6 images in place of 50 of 500."""
    monkeypatch.setattr(imagenet21k, "SYNSETS", 11)
    monkeypatch.setattr(imagenet21k, "IMAGES", IMAGES)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from or left in the user's cache."""
    monkeypatch.setenv("CUAL_CACHE", str(cache))


@pytest.mark.more
@pytest.mark.usefixtures("small_imagenet", "own_cache")
@pytest.mark.parametrize("name", EXHIBITS)
def test_every_exhibit_is_made_from_the_data_on(name: str, root: Path) -> None:
    code, printed = command(name, "--root", root, "--quick", "--device", "cpu")
    assert code == 0, printed
    layout = Layout(root)
    settings = settings_of(name, "cpu", layout, quick=True)
    for features in features_of(settings):
        assert features.file.exists()
        assert (layout.data(features.dataset) / "dataset.json").exists()
    folder = layout.results(EXHIBITS[name].preset, quick=True)
    for run, setting in settings.items():
        assert set(json.loads((folder / run / "summary.json").read_text())) == set(setting.methods)
    assert "figures mean nothing" in printed


@pytest.mark.more
@pytest.mark.usefixtures("small_imagenet", "own_cache")
def test_what_was_made_is_not_made_again(root: Path) -> None:
    name, layout = "figure3-left", Layout(root)
    code, printed = command(name, "--root", root, "--quick", "--device", "cpu")
    assert code == 0, printed
    folder = layout.results(EXHIBITS[name].preset, quick=True)
    made = {file: file.stat().st_mtime_ns for file in layout.features.iterdir()}
    rows = {file: file.read_bytes() for file in folder.rglob("results.jsonl")}
    code, printed = command(name, "--root", root, "--quick", "--device", "cpu")
    assert code == 0, printed
    assert {file: file.stat().st_mtime_ns for file in layout.features.iterdir()} == made
    assert {file: file.read_bytes() for file in folder.rglob("results.jsonl")} == rows
    assert report(folder / "cifar100-super-0.0125", None).exists()


def test_what_people_must_fetch_is_named_before_anything_is_done(tmp_path: Path) -> None:
    code, printed = command("figure2-left", "--root", tmp_path / "here", "--device", "cpu")
    assert code != 0
    assert "winter21_whole.tar.gz" in printed
    assert str(tmp_path / "here" / "sources" / "im21k-ood") in printed
    assert "--skip-missing" in printed
    assert not (tmp_path / "here").exists()
    code, printed = command("table1", "--root", tmp_path, "--device", "cpu", "--skip-missing")
    assert code != 0
    assert "nothing of table1 is left without im21k-ood" in printed


def test_a_full_disk_is_told_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr("cual.cli.paper.shutil.disk_usage", lambda _: SimpleNamespace(free=10**8))
    code, printed = command("figure3-left", "--root", tmp_path, "--device", "cpu")
    assert code != 0
    assert "100 MB left" in printed
    assert list(tmp_path.iterdir()) == []


def test_a_plan_does_nothing_and_says_that_it_estimates(tmp_path: Path) -> None:
    code, printed = command("figure2-left", "--root", tmp_path / "none", "--device", "cpu", "--plan")
    assert code == 0, printed
    assert "estimated, not measured" in printed
    assert "eurosat-dino-vits16.npz" in printed
    assert not (tmp_path / "none").exists()


def test_what_is_there_is_not_needed_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    settings = settings_of("figure3-right", "cpu", layout)
    before = needed(settings, layout, jobs=1)
    (file,) = (features.file for features in features_of(settings))
    file.parent.mkdir()
    file.touch()
    after = needed(settings, layout, jobs=1)
    assert after.disk < before.disk
    assert after.encoding_hours == 0 < before.encoding_hours
    assert after.running_hours == before.running_hours
    assert "im21k-ood" in unreachable(settings_of("table1", "cpu", layout), layout)
    (tmp_path / "sources" / "im21k-ood").mkdir(parents=True)
    assert unreachable(settings_of("table1", "cpu", layout), layout) == {}


def test_sizes_are_those_that_the_datasets_tell() -> None:
    for name, facts in SIZES.items():
        told = re.findall(r"(?:about )?([\d,]+) images", datasets[name].expected)
        if told:
            assert facts.images == pytest.approx(int(told[0].replace(",", "")), rel=0.01)
        assert re.search(rf"\b{facts.classes}\b", datasets[name].expected)


def test_the_page_has_a_command_and_the_estimate_of_every_exhibit() -> None:
    layout = Layout(Path("nowhere"))
    for name in EXHIBITS:
        assert f"cual bench paper {name} --root" in PAGE
        takes = needed(settings_of(name, "cpu", layout), layout, jobs=8)
        hours = takes.encoding_hours + takes.running_hours
        (line,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, flags=re.MULTILINE)
        assert f"| {size_of(takes.disk)} | {hours:.1f} |" in line, (line, size_of(takes.disk), hours)


def test_the_papers_figures_on_the_page_are_those_of_the_paper() -> None:
    for table in paper_tables().values():
        for method, values in table.rows.items():
            cells = " | ".join("–" if value is None else f"{value:.1f}" for value in values)
            assert f"| {method} | {cells} |" in PAGE
