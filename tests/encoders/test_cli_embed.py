"""`cual embed`, `cual data`, and the other commands on images and text: what they print, write and refuse."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from cual.agent import Agent
from cual.cli import app
from cual.data.files import read

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def cual(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def images(tmp_path):
    """Noisy images of three colours, 30 each; `first` holds two of them, `pool` all."""
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        for i in range(30):
            pixels = np.clip(np.array(colour) + rng.normal(0, 20, (6, 6, 3)), 0, 255).astype(np.uint8)
            for where in ("pool", *(("first",) if name != "blue" else ())):
                file = tmp_path / where / name / f"{i}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(file)
    (tmp_path / "pool" / "red" / "broken.png").write_bytes(b"broken")
    (tmp_path / "toy_encoder.py").write_text(
        "import numpy as np\n"
        "def corners(images):\n"
        "    return [np.asarray(i, float).reshape(-1)[:60] / 255 for i in images]\n"
    )
    return tmp_path


def test_embed_makes_a_folder_and_lists_what_it_skipped(images):
    encoder = f"python:{images / 'toy_encoder.py'}:corners"
    said = cual("embed", images / "pool", "-o", images / "f", "--encoder", encoder, "--batch", 8)
    assert "90 images in" in said
    assert "per second" in said
    assert "1 could not be read" in said
    assert "skipped.csv" in said
    assert read(images / "f").X.shape == (90, 60)
    assert "were there 90" in cual("embed", images / "pool", "-o", images / "f", "--encoder", encoder)
    cual("embed", images / "pool", "-o", images / "f.npz", "--encoder", encoder, "--dtype", "float32")
    held = read(images / "f.npz")
    assert held.encoder.startswith(encoder)
    assert held.X.dtype == np.float32
    assert sorted(p.name for p in images.iterdir() if p.name.startswith(".")) == []
    assert "exists" in cual("embed", images / "pool", "-o", images / "f.npz", "--encoder", encoder, code=2)


def test_an_npz_has_its_list_and_nothing_of_another_source(images):
    encoder = f"python:{images / 'toy_encoder.py'}:corners"
    # As a run on other images leaves it that was ended before the file was written.
    cual("embed", images / "first", "-o", images / ".f.npz.parts", "--encoder", encoder)
    (images / "pool" / "red" / "0.png").unlink()
    said = cual("embed", images / "pool", "-o", images / "f.npz", "--encoder", encoder)
    assert "f.skipped.csv" in said
    assert "broken.png" in (images / "f.skipped.csv").read_text()
    assert len(read(images / "f.npz")) == 89
    assert "red/0.png" not in read(images / "f.npz").ids
    (images / "bad").mkdir()
    (images / "bad" / "x.png").write_bytes(b"")
    cual("embed", images / "bad", "-o", images / "g.npz", "--encoder", encoder, code=1)
    assert not (images / "g.npz").exists()
    assert not (images / ".g.npz.parts").exists()
    assert "x.png" in (images / "g.skipped.csv").read_text()


def test_what_is_gone_is_said(images):
    encoder = f"python:{images / 'toy_encoder.py'}:corners"
    cual("embed", images / "pool", "-o", images / "f", "--encoder", encoder)
    (images / "pool" / "red" / "0.png").unlink()
    assert "also there 1 that" in cual("embed", images / "pool", "-o", images / "f", "--encoder", encoder)


def test_embed_refuses_by_name(images):
    target = images / "f"
    for arguments, said in (
        ((images / "nowhere",), "no such file"),
        ((images / "pool", "--encoder", "vgg"), "no encoder is called 'vgg'"),
        ((images / "pool", "--precision", "int8"), "--precision"),
        ((images / "pool", "--device", "cuda:7"), "no device"),
        ((images / "pool", "--dtype", "int8", "--encoder", f"python:{images}/toy_encoder.py:corners"), "int8"),
    ):
        assert said in cual("embed", *arguments, "-o", target, code=2)
    (images / "file").write_text("x")
    encoder = f"python:{images / 'toy_encoder.py'}:corners"
    assert "is a file" in cual("embed", images / "pool", "-o", images / "file", "--encoder", encoder, code=2)
    (images / "bad").mkdir()
    (images / "bad" / "x.png").write_bytes(b"")
    assert "1 could not be read" in cual("embed", images / "bad", "-o", target, "--encoder", encoder, code=1)


def test_fit_adapt_and_predict_take_folders_of_images(images):
    encoder = f"python:{images / 'toy_encoder.py'}:corners"
    small = ("--buffer", 60)
    said = cual("fit", images / "first", "-o", images / "v0", "--encoder", encoder, *small)
    assert "encoded 60 images" in said
    assert Agent.load(images / "v0").encoder.startswith(encoder)
    assert encoder in cual("info", images / "v0").replace(" ", "")
    answers = "id,label\n" + "".join(f"{c}/{i}.png,{c}\n" for c in COLOURS for i in range(30))
    (images / "answers.csv").write_text(answers)
    given = ("adapt", images / "v0", images / "pool", "--budget", 9, "--labels", images / "answers.csv")
    said = cual(*given, "-o", images / "v1", "--encoder", encoder)
    assert "encoded 90 images" in said
    assert "new classes blue" in said
    said = cual("predict", images / "v1", images / "pool", "-o", images / "p.csv", "--encoder", encoder)
    assert "encoded" not in said  # the cache is reused
    rows = [line.split(",") for line in (images / "p.csv").read_text().splitlines()[1:]]
    assert len(rows) == 90
    assert np.mean([row[0].split("/")[0] == row[1] for row in rows]) > 0.9


def test_features_of_another_encoder_are_refused(images):
    encoder = f"python:{images / 'toy_encoder.py'}:corners"
    cual("fit", images / "first", "-o", images / "v0", "--encoder", encoder)
    (images / "toy_encoder.py").write_text((images / "toy_encoder.py").read_text().replace("255", "100"))
    said = cual("predict", images / "v0", images / "pool", "--encoder", encoder, code=2)
    assert "cannot be compared" in said


def test_text_tables(tmp_path):
    (tmp_path / "toy_text.py").write_text(
        "def count(texts):\n    return [[t.count(c) for c in 'abcdefgh'] for t in texts]\n"
    )
    rng = np.random.default_rng(0)
    rows = [f"{''.join(rng.choice(list(w), 12))},{w}" for w in ("abc", "def") for _ in range(30)]
    (tmp_path / "t.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    encoder = f"python:{tmp_path / 'toy_text.py'}:count?kind=text"
    cual("fit", tmp_path / "t.csv", "-o", tmp_path / "v0", "--encoder", encoder)
    cual("predict", tmp_path / "v0", tmp_path / "t.csv", "-o", tmp_path / "p.csv", "--encoder", encoder)
    predicted = [line.split(",")[1] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    assert np.mean(np.array(predicted) == np.repeat(["abc", "def"], 30)) > 0.8
    said = cual("embed", tmp_path / "t.csv", "-o", tmp_path / "f", "--encoder", encoder, "--label", "text")
    assert "60 texts" in said
    assert "no column 'x'" in cual("embed", tmp_path / "t.csv", "-o", tmp_path / "g", "--text", "x", code=2)


def test_data_commands(tmp_path):
    said = cual("data", "list")
    assert "EuroSAT" in said
    file = tmp_path / "2750" / "Forest" / "Forest_1.jpg"
    file.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(file)
    said = cual("data", "get", "eurosat", "--root", tmp_path, "-o", tmp_path / "out")
    assert "1 classes, 1 images" in said
    assert "--root" in cual("data", "get", "im21k-ood", "-o", tmp_path / "x", code=2)
    assert "no dataset is called" in cual("data", "get", "mnist", "-o", tmp_path / "x", code=2)
