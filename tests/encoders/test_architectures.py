"""Our ResNet50 and ViT-S/16 against transformers' own: the same random weights must give the same features."""

import numpy as np
import pytest
import torch
from PIL import Image

from cual.encoders import Setup, make
from cual.encoders.resnet import ResNet50
from cual.encoders.vit import DEPTH, BlockFeatures, ViTS16
from cual.errors import BadFile, BadOption, DamagedFile

pytestmark = pytest.mark.more

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def random_state(module, seed=0):
    """Weights in which every entry matters: no zeros, no ones, running variances that are positive."""
    rng = torch.Generator().manual_seed(seed)
    state = {}
    for key, value in module.state_dict().items():
        if key.endswith("num_batches_tracked"):
            state[key] = value
        elif key.endswith(
            ("running_var", "bn1.weight", "bn2.weight", "bn3.weight", "norm1.weight", "norm2.weight")
        ):
            state[key] = 0.5 + torch.rand(value.shape, generator=rng)
        else:
            fan = max(1, value[0].numel()) if value.ndim > 1 else 10
            state[key] = torch.randn(value.shape, generator=rng) / fan**0.5
    return state


def to_transformers_resnet(state):
    """torchvision's key names to those of transformers' ResNet."""
    out = {}
    for key, value in state.items():
        parts = key.split(".")
        if parts[0] in ("conv1", "bn1"):
            name = "convolution" if parts[0] == "conv1" else "normalization"
            out[f"embedder.embedder.{name}.{parts[-1]}"] = value
            continue
        prefix = f"encoder.stages.{int(parts[0][-1]) - 1}.layers.{parts[1]}"
        if parts[2] == "downsample":
            name = "convolution" if parts[3] == "0" else "normalization"
            out[f"{prefix}.shortcut.{name}.{parts[-1]}"] = value
        else:
            name = "convolution" if parts[2].startswith("conv") else "normalization"
            out[f"{prefix}.layer.{int(parts[2][-1]) - 1}.{name}.{parts[-1]}"] = value
    return out


def loaded(model, state):
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert not [k for k in missing if "num_batches" not in k and "pooler" not in k]
    return model.eval()


@pytest.mark.parametrize("size", [(224, 224), (96, 160)])
def test_resnet50_is_transformers_resnet50(size):
    ours = ResNet50()
    state = random_state(ours)
    ours.load_state_dict(state)
    config = transformers.ResNetConfig(layer_type="bottleneck", downsample_in_bottleneck=False)
    theirs = loaded(transformers.ResNetModel(config), to_transformers_resnet(state))
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        a, b = ours.eval()(x), theirs(x).pooler_output.flatten(1)
    assert a.shape == (2, 2048)
    assert a.std() > 1e-3
    assert torch.allclose(a, b, atol=1e-4 * float(b.abs().max()))


def their_vit(state):
    config = transformers.ViTConfig(
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=6,
        intermediate_size=1536,
        layer_norm_eps=1e-6,
    )
    model = transformers.ViTModel(config, add_pooling_layer=False)
    return loaded(model, to_transformers_vit(state, model.state_dict()))


def to_transformers_vit(state, names):
    """DINO's key names to those of transformers' ViT, of version 4 or of version 5."""
    four = "encoder.layer.0.attention.attention.query.weight" in names
    layer = "encoder.layer.{}" if four else "layers.{}"
    new = {
        "norm1": "layernorm_before",
        "norm2": "layernorm_after",
        "attn.proj": "attention.output.dense" if four else "attention.o_proj",
        "mlp.fc1": "intermediate.dense" if four else "mlp.fc1",
        "mlp.fc2": "output.dense" if four else "mlp.fc2",
    }
    parts = ("attention.attention.query", "attention.attention.key", "attention.attention.value")
    qkv = parts if four else ("attention.q_proj", "attention.k_proj", "attention.v_proj")
    out = {
        "embeddings.cls_token": state["cls_token"],
        "embeddings.position_embeddings": state["pos_embed"],
    }
    for end in ("weight", "bias"):
        out[f"embeddings.patch_embeddings.projection.{end}"] = state[f"patch_embed.proj.{end}"]
        out[f"layernorm.{end}"] = state[f"norm.{end}"]
        for i in range(DEPTH):
            for name, piece in zip(qkv, state[f"blocks.{i}.attn.qkv.{end}"].chunk(3), strict=True):
                out[f"{layer.format(i)}.{name}.{end}"] = piece
            for old, name in new.items():
                out[f"{layer.format(i)}.{name}.{end}"] = state[f"blocks.{i}.{old}.{end}"]
    return out


@pytest.mark.parametrize("size", [(224, 224), (256, 192)])
def test_vits16_is_transformers_vit_also_with_interpolated_positions(size):
    ours = ViTS16()
    state = random_state(ours)
    ours.load_state_dict(state)
    theirs = their_vit(state)
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        out = theirs(x, output_hidden_states=True, interpolate_pos_encoding=size != (224, 224))
        last, ninth = ours.eval()(x), ours(x, block=9)
    assert torch.allclose(last, out.last_hidden_state, atol=1e-4 * float(last.abs().max()))
    assert torch.allclose(ninth, out.hidden_states[10], atol=1e-4 * float(ninth.abs().max()))


def test_block_features_pool_squares_of_patches():
    vit = ViTS16().eval()
    vit.load_state_dict(random_state(vit))
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        tokens = vit(x, 9)[0]
        pooled = BlockFeatures(vit, 9, 2, "patches")(x)[0]
        both = BlockFeatures(vit, 9, 2, "both")(x)[0]
    assert pooled.shape == (18816,)
    grid = tokens[1:].reshape(14, 14, 384)
    for row, column, channel in [(0, 0, 0), (3, 6, 17), (6, 1, 383)]:
        square = grid[2 * row : 2 * row + 2, 2 * column : 2 * column + 2, channel]
        assert pooled.reshape(384, 7, 7)[channel, row, column] == pytest.approx(float(square.mean()), abs=1e-5)
    assert torch.equal(both, torch.cat([tokens[0], pooled]))


# -- the official files, by key names


@pytest.fixture(scope="module")
def swav_file(tmp_path_factory):
    state = {f"module.{k}": v for k, v in random_state(ResNet50()).items()}
    state |= {
        "module.projection_head.0.weight": torch.zeros(8, 2048),
        "module.projection_head.1.running_mean": torch.zeros(8),
        "module.prototypes.weight": torch.zeros(30, 8),
    }
    path = tmp_path_factory.mktemp("weights") / "swav_800ep_pretrain.pth.tar"
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def dino_state():
    return random_state(ViTS16(), seed=3)


def noise(n=3, size=(40, 60), seed=0):
    rng = np.random.default_rng(seed)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for _ in range(n)]


def test_swav_checkpoints_load_without_prefix_and_heads(swav_file):
    encoder = make("swav-resnet50", Setup(weights=swav_file))
    features = encoder.encode([encoder.prepare(image) for image in noise()])
    assert features.shape == (3, encoder.dim) == (3, 2048)
    assert encoder.preprocessing["std"][0] == 0.228
    again = make("swav-resnet50", Setup(weights=swav_file))
    assert encoder.fingerprint == again.fingerprint
    network = ResNet50().eval()
    network.load_state_dict(random_state(network))
    pixels = (
        np.stack([encoder.prepare(image) for image in noise()]).astype(np.float32).transpose(0, 3, 1, 2) / 255
    )
    mean, std = (np.float32(encoder.preprocessing[k])[None, :, None, None] for k in ("mean", "std"))
    with torch.inference_mode():
        expected = network(torch.from_numpy((pixels - mean) / std)).numpy()
    assert np.allclose(features, expected, atol=1e-4 * abs(expected).max())


def test_dino_checkpoints_load_from_the_backbone_or_the_teacher(dino_state, tmp_path):
    torch.save(dino_state, tmp_path / "small.pth")
    teacher = {f"module.backbone.{k}": v for k, v in dino_state.items()} | {
        "module.head.mlp.0.weight": torch.ones(2)
    }
    torch.save({"teacher": {k.removeprefix("module."): v for k, v in teacher.items()}}, tmp_path / "full.pth")
    encoders = [make("dino-vits16", Setup(weights=tmp_path / f)) for f in ("small.pth", "full.pth")]
    assert encoders[0].fingerprint == encoders[1].fingerprint
    assert encoders[0].dim == 18816
    small = make("dino-vits16?block=11&tokens=class&size=112&pool=1", Setup(weights=tmp_path / "small.pth"))
    assert small.name == "dino-vits16?block=11&pool=1&size=112&tokens=class"
    assert small.encode([small.prepare(image) for image in noise(2)]).shape == (2, 384)
    assert make(small.name, Setup(weights=tmp_path / "small.pth")).fingerprint == small.fingerprint
    assert small.fingerprint != encoders[0].fingerprint


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("block=12", "block is 12"),
        ("tokens=all", "'all'"),
        ("size=100", "multiple of 16"),
        ("depth=3", "no option depth"),
    ],
)
def test_bad_options_are_named(spec, said):
    with pytest.raises(BadOption, match=said):
        make(f"dino-vits16?{spec}")


def test_weights_of_another_network_are_refused(swav_file, dino_state, tmp_path):
    torch.save(dino_state, tmp_path / "dino.pth")
    with pytest.raises(BadFile, match=r"lacks conv1\.weight"):
        make("swav-resnet50", Setup(weights=tmp_path / "dino.pth"))
    with pytest.raises(BadFile, match="lacks cls_token"):
        make("dino-vits16", Setup(weights=swav_file))
    with pytest.raises(DamagedFile, match="SHA-256"):
        make("dino-vits16", Setup(weights=swav_file, sha256="0" * 64))
    torch.save(dino_state | {"pos_embed": torch.zeros(1, 50, 384)}, tmp_path / "other.pth")
    with pytest.raises(BadFile, match="another shape of pos_embed"):
        make("dino-vits16", Setup(weights=tmp_path / "other.pth"))


class Evil:
    def __reduce__(self):
        return (print, ("run by a weights file",))


def test_torch_files_cannot_run_code(tmp_path, capsys):
    torch.save({"conv1.weight": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(BadFile, match="no plain weights"):
        make("swav-resnet50", Setup(weights=tmp_path / "evil.pth"))
    assert "run by" not in capsys.readouterr().out


def test_half_precision_is_close(swav_file):
    images = noise()
    full = make("swav-resnet50", Setup(weights=swav_file))
    half = make("swav-resnet50", Setup(weights=swav_file, precision="bfloat16"))
    a, b = (e.encode([e.prepare(i) for i in images]) for e in (full, half))
    assert b.dtype == np.float32
    assert np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)
    assert full.fingerprint == half.fingerprint
