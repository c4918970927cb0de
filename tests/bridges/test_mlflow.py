"""An agent in a real MLflow on this disk: logged, registered, loaded again, and nothing of it pickled."""

from pathlib import Path

import numpy as np
import pytest

from cual import Agent
from cual.errors import BadOption
from worlds import World

mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")

from cual.bridges.mlflow import judged, log_agent, save_model  # noqa: E402


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tracking store and registry in SQLite, artifacts in a folder beside it."""
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.set_experiment("agents")
    yield tmp_path
    mlflow.set_tracking_uri(before)


def test_an_agent_is_logged_and_loaded_and_says_the_same(store: Path, world: World) -> None:
    agent = world.answer_all(world.adapt(world.agent(method="cual-plus"))).finish()
    with mlflow.start_run() as run:
        logged = log_agent(agent, registered_model_name="animals")
    assert mlflow.get_run(run.info.run_id).info.status == "FINISHED"
    for uri in (logged.model_uri, "models:/animals/1"):
        model = mlflow.pyfunc.load_model(uri)
        assert model.metadata.metadata["version"] == 1
        said = model.predict(world.pool)
        assert said.equals(judged(agent, world.pool))
    assert said["label"].tolist() == agent.predict(world.pool).tolist()
    assert said["probability"].tolist() == agent.predict_proba(world.pool).max(axis=1).tolist()
    assert said["novelty"].tolist() == agent.novelty(world.pool).tolist()
    assert said["unlike"].tolist() == (agent.novelty(world.pool) > agent.threshold.value).tolist()
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
    names = {path.name for path in folder.rglob("*")}
    assert {"agent.safetensors", "cual_agent.py", "MLmodel"} <= names
    assert [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))] == []


def test_a_folder_for_mlflow(world: World, tmp_path: Path) -> None:
    agent = Agent.fit(world.X, [7 if label == "dog" else 3 for label in world.y], "cual-plus")
    save_model(agent, tmp_path / "model", false_alarms=0.3)
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert model.predict(world.pool)["label"].tolist() == agent.predict(world.pool).tolist()
    assert model.predict(world.pool)["unlike"].tolist() == judged(agent, world.pool, 0.3)["unlike"].tolist()
    other = mlflow.pyfunc.load_model(str(tmp_path / "model"), model_config={"false_alarms": None})
    assert other.predict(world.pool)["unlike"].tolist() == judged(agent, world.pool)["unlike"].tolist()
    (given,) = model.metadata.signature.inputs.inputs
    assert (given.type, given.shape) == (np.dtype(np.float32), (-1, 16))
    needed = (tmp_path / "model" / "requirements.txt").read_text(encoding="utf-8")
    assert model.input_example.shape == (2, 16)
    assert "cual==" in needed
    assert "cloudpickle" not in needed


def test_what_does_not_fit_is_refused(world: World, tmp_path: Path) -> None:
    agent = world.agent(method="cual-plus")
    with pytest.raises(BadOption, match="false_alarms"):
        save_model(agent, tmp_path / "model", false_alarms=3.0)
    assert not (tmp_path / "model").exists()
    save_model(agent, tmp_path / "model")
    with pytest.raises(mlflow.MlflowException, match="shape"):
        mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(world.pool[:, :5])
