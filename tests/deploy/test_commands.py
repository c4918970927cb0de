"""`cual export-model`."""

from pathlib import Path

import numpy as np
import pytest

from commands import cual, refused
from cual import Agent
from worlds import World


@pytest.fixture
def agent(world: World, tmp_path: Path) -> Path:
    world.agent(method="cual-plus").save(tmp_path / "v0.agent")
    return tmp_path / "v0.agent"


def test_an_onnx_file(agent: Path, world: World, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    target = tmp_path / "v0.onnx"
    result = cual("export-model", agent, "-o", target)
    assert result.exit_code == 0
    assert "logits, label, probabilities, calibrated, novelty, threshold, unlike" in result.stdout
    (label,) = onnxruntime.InferenceSession(str(target)).run(["label"], {"features": world.pool})
    loaded = Agent.load(agent)
    assert loaded.classes_[label].tolist() == loaded.predict(world.pool).tolist()
    assert "--force replaces it" in refused("export-model", agent, "-o", target)
    assert cual("export-model", agent, "-o", target, "--force", "--classes-only").exit_code == 0
    assert len(onnxruntime.InferenceSession(str(target)).get_outputs()) == 4
    assert cual("export-model", agent, "-o", target, "--force", "--false-alarms", 0.3).exit_code == 0
    (threshold,) = onnxruntime.InferenceSession(str(target)).run(["threshold"], {"features": world.pool[:1]})
    assert float(threshold) == pytest.approx(loaded.threshold_at(0.3).value)


def test_a_folder_for_mlflow(agent: Path, world: World, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    assert cual("export-model", agent, "-o", tmp_path / "model", "--format", "mlflow").exit_code == 0
    said = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(world.pool)
    assert said["label"].tolist() == Agent.load(agent).predict(world.pool).tolist()
    assert "is not empty" in refused("export-model", agent, "-o", tmp_path / "model", "--format", "mlflow")


def test_what_is_refused(agent: Path, world: World, tmp_path: Path) -> None:
    target = tmp_path / "v0.onnx"
    assert "--format is one of onnx, mlflow" in refused("export-model", agent, "-o", tmp_path / "v0")
    assert "not 'pickle'" in refused("export-model", agent, "-o", target, "--format", "pickle")
    assert "does not know the encoder" in refused("export-model", agent, "-o", target, "--with-encoder")
    assert "does not know the encoder" in refused(
        "export-model", agent, "-o", target, "--encoder", "onnx:x.onnx"
    )
    both = ("--without-encoder", "--encoder", "efficientnet-lite0")
    assert "leaves it out" in refused("export-model", agent, "-o", target, *both)
    of_mlflow = ("--format", "mlflow", "--classes-only")
    assert "are for --format onnx" in refused("export-model", agent, "-o", tmp_path / "m", *of_mlflow)
    np.savez(tmp_path / "x.npz", X=world.X)
    assert "was not written by cual" in refused("export-model", tmp_path / "x.npz", "-o", target)
    Agent.fit(world.X, world.y, encoder="onnx:gift.onnx@0123456789ab").save(agent)
    assert "a file never decides what runs" in refused("export-model", agent, "-o", target, "--with-encoder")
    assert not target.exists()
