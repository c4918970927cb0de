"""Models of sentence-transformers and of transformers, tiny and made here, against what the libraries give."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cual.encoders import make
from cual.encoders.base import Encoder
from cual.errors import BadFile, BadOption, Unavailable

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
models = pytest.importorskip("sentence_transformers.models")
pytestmark = pytest.mark.more

TEXTS = [
    "where is my card?",
    "a",
    "Cat",
    "the owl sat on a mat where the cat and the dog sat and so on and on",
    "",
]
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "dog",
    "owl",
    "sat",
    "on",
    "a",
    "mat",
    "where",
    "is",
    "my",
    "card",
    "and",
    "so",
    "Cat",
    "?",
    "query",
    ":",
]
WIDTH = 16
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text model of transformers, which knows nothing of sentences."""
    folder = tmp_path_factory.mktemp("plain")
    torch.manual_seed(0)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a model of the given modules as the library does."""

    def save(*modules: Any, most: int = 12, **options: Any) -> Path:
        folder = tmp_path_factory.mktemp("sentences")
        first = models.Transformer(str(plain), max_seq_length=most)
        model = library.SentenceTransformer(modules=[first, *modules], device="cpu", **options)
        model.save(str(folder))
        return folder

    return save


def said(folder: Path, texts: list[str] = TEXTS, **options: Any) -> np.ndarray:
    """What the library itself gives for texts."""
    model = library.SentenceTransformer(str(folder), device="cpu")
    return model.encode(texts, show_progress_bar=False, **options)


def check_same(encoder: Encoder, expected: np.ndarray) -> None:
    given = encoder.encode([encoder.prepare(text) for text in TEXTS])
    assert given.shape == expected.shape == (len(TEXTS), encoder.dim)
    assert np.abs(given - expected).max() < 1e-5
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.abs(alone - expected).max() < 1e-5


@pytest.mark.parametrize("mode", [*MODES, ("mean", "max"), ("cls", "lasttoken", "weightedmean")])
def test_poolings_are_the_librarys_own(saved: Callable[..., Path], mode: str | tuple[str, ...]) -> None:
    folder = saved(models.Pooling(WIDTH, pooling_mode=mode))
    expected = said(folder)
    check_same(make(f"st:{folder}"), expected)
    check_same(make(f"hf:{folder}"), expected)


def test_layers_and_unit_length_are_the_models_own(saved: Callable[..., Path]) -> None:
    torch.manual_seed(1)
    layers = (
        models.Pooling(WIDTH, pooling_mode="mean"),
        models.Dense(WIDTH, 10, activation_function=torch.nn.GELU()),
        models.LayerNorm(10),
        models.Dense(10, 6, bias=False, activation_function=torch.nn.Identity()),
        models.Normalize(),
    )
    folder = saved(*layers)
    encoder = make(f"st:{folder}")
    check_same(encoder, said(folder))
    assert encoder.dim == 6
    assert np.allclose(np.linalg.norm(encoder.encode(TEXTS), axis=1), 1, atol=1e-5)
    others = saved(*layers[:1], models.Dense(WIDTH, 10, activation_function=torch.nn.ReLU()))
    assert make(f"st:{others}").fingerprint.rpartition("@")[2] != encoder.fingerprint.rpartition("@")[2]


def test_weights_of_layers_are_part_of_the_fingerprint(saved: Callable[..., Path]) -> None:
    folder = saved(models.Pooling(WIDTH), models.Dense(WIDTH, 4))
    before = make(f"st:{folder}").fingerprint
    from safetensors.torch import load_file, save_file

    (file,) = folder.glob("2_Dense/*.safetensors")
    state = load_file(file)
    save_file({name: tensor + 0.5 for name, tensor in state.items()}, file)
    assert make(f"st:{folder}").fingerprint != before


@pytest.mark.parametrize("pools_prompt", [True, False])
@pytest.mark.parametrize("mode", ["cls", "mean", "weightedmean", "max", "lasttoken"])
def test_prompts_are_the_models_own(saved: Callable[..., Path], mode: str, pools_prompt: bool) -> None:
    prompts = {"query": "query : ", "other": "the cat : "}
    pooling = models.Pooling(WIDTH, pooling_mode=mode, include_prompt=pools_prompt)
    folder = saved(pooling, most=24, prompts=prompts, default_prompt_name="query")
    check_same(make(f"st:{folder}"), said(folder))
    check_same(make(f"hf:{folder}"), said(folder))
    check_same(make(f"st:{folder}?prompt=other"), said(folder, prompt_name="other"))
    with pytest.raises(BadOption, match="has no prompt 'nothing'; it has"):
        make(f"st:{folder}?prompt=nothing")


def test_limits_of_length_are_the_models_own(saved: Callable[..., Path]) -> None:
    folder = saved(models.Pooling(WIDTH), most=6)
    encoder = make(f"st:{folder}")
    assert encoder.preprocessing["max_tokens"] == 6
    check_same(encoder, said(folder))
    assert make(f"st:{folder}?max_tokens=4").preprocessing["max_tokens"] == 4


def test_settings_of_earlier_releases_mean_the_same(saved: Callable[..., Path]) -> None:
    """Flags in place of names, and classes where they lay before."""
    folder = saved(models.Pooling(WIDTH, pooling_mode="cls"), models.Normalize())
    new = make(f"st:{folder}")
    flags = {
        "word_embedding_dimension": WIDTH,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags))
    rows = json.loads((folder / "modules.json").read_text())
    for row in rows:
        row["type"] = f"sentence_transformers.models.{row['type'].rpartition('.')[2]}"
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 12, "do_lower_case": False})
    )
    old = make(f"st:{folder}")
    assert old.fingerprint == new.fingerprint
    assert np.array_equal(old.encode(TEXTS), new.encode(TEXTS))


def test_lower_case_where_the_model_says_so(saved: Callable[..., Path]) -> None:
    folder = saved(models.Pooling(WIDTH))
    cased = make(f"st:{folder}")
    assert not np.allclose(*cased.encode(["Cat", "cat"]))
    told = json.loads((folder / "sentence_bert_config.json").read_text())
    (folder / "sentence_bert_config.json").write_text(json.dumps({**told, "do_lower_case": True}))
    encoder = make(f"st:{folder}")
    check_same(encoder, said(folder))
    assert np.allclose(*encoder.encode(["Cat", "cat"]))
    assert encoder.fingerprint != cased.fingerprint


def test_a_model_of_transformers_alone(plain: Path) -> None:
    """The mean of its tokens, as the library has it of such a model as well."""
    check_same(make(f"hf:{plain}"), said(plain))
    with pytest.raises(BadFile, match=r"has no modules\.json; use hf:"):
        make(f"st:{plain}")


def test_padding_on_the_left(tmp_path: Path) -> None:
    """As models that write text have it: the last token is still the text's own."""
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokens = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", padding_side="left")
    config = transformers.GPT2Config(vocab_size=len(WORDS), n_positions=32, n_embd=WIDTH, n_layer=2, n_head=2)
    transformers.GPT2Model(config).save_pretrained(tmp_path / "plain")
    tokens.save_pretrained(tmp_path / "plain")
    first = models.Transformer(str(tmp_path / "plain"))
    texts = [text for text in TEXTS if text]
    for mode in MODES:
        model = library.SentenceTransformer(
            modules=[first, models.Pooling(WIDTH, pooling_mode=mode)], device="cpu"
        )
        model.save(str(tmp_path / mode))
        encoder = make(f"st:{tmp_path / mode}")
        expected = np.concatenate([said(tmp_path / mode, [text]) for text in texts])
        assert np.abs(np.concatenate([encoder.encode([text]) for text in texts]) - expected).max() < 1e-5, mode
        assert np.abs(encoder.encode(texts) - said(tmp_path / mode, texts)).max() < 1e-5, mode


def test_its_network_as_onnx(saved: Callable[..., Path]) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    folder = saved(
        models.Pooling(WIDTH, pooling_mode="weightedmean"), models.Dense(WIDTH, 5), models.Normalize()
    )
    encoder = make(f"st:{folder}")
    network = encoder.in_onnx().model
    onnx.checker.check_model(network)
    session = runtime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.run(None, encoder.feeds(TEXTS))
    assert np.abs(given - encoder.encode(TEXTS)).max() < 1e-5


@pytest.fixture
def evil(saved: Callable[..., Path], tmp_path: Path) -> Callable[[Any], Path]:
    """A folder of a model whose modules.json was changed by a stranger."""

    def change(row: Any) -> Path:
        folder = saved(models.Pooling(WIDTH))
        rows = json.loads((folder / "modules.json").read_text())
        (folder / "modules.json").write_text(json.dumps([*rows, row]))
        (folder / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Module: ...\n")
        return folder

    return change


@pytest.mark.parametrize(
    "row",
    [
        {"type": "theirs.Module", "path": ""},
        {"type": "sentence_transformers.evil.Module", "path": "2"},
        {"type": "sentence_transformers.models.Dense", "path": "../../etc"},
        {"type": "sentence_transformers.models.Dense", "path": "/etc"},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Dense", "path": "2_nothing"},
        {"type": 3},
        "Dense",
    ],
)
def test_what_a_model_names_is_never_imported(evil: Callable[[Any], Path], row: Any, tmp_path: Path) -> None:
    for kind in ("st", "hf"):
        with pytest.raises(BadFile):
            make(f"{kind}:{evil(row)}")
    assert not (tmp_path / "ran").exists()


def test_odd_activations_and_pickles_are_refused(saved: Callable[..., Path], tmp_path: Path) -> None:
    folder = saved(models.Pooling(WIDTH), models.Dense(WIDTH, 4))
    config = folder / "2_Dense" / "config.json"
    told = json.loads(config.read_text())
    config.write_text(json.dumps({**told, "activation_function": "os.system"}))
    with pytest.raises(BadFile, match=r"activation 'os\.system'"):
        make(f"st:{folder}")
    config.write_text(json.dumps(told))
    (folder / "2_Dense" / "model.safetensors").unlink()
    evil = f"cos\nsystem\n(S'touch {tmp_path / 'ran'}'\ntR.".encode()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(evil)
    with pytest.raises(BadFile, match="no weights that can be read"):
        make(f"st:{folder}")
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    from huggingface_hub import constants

    from hub_server import hub_server

    with hub_server() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", running.url + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield running


def test_by_name_from_the_hub(saved: Callable[..., Path], hub: Any) -> None:
    folder = saved(models.Pooling(WIDTH, pooling_mode="max"), models.Dense(WIDTH, 5), models.Normalize())
    files = {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    hub.put("ada/sentences", files)
    hub.put("sentence-transformers/tiny", files)
    expected = said(folder)
    check_same(make("st:ada/sentences"), expected)
    check_same(make("hf:ada/sentences"), expected)
    check_same(make("st:tiny"), expected)
    with pytest.raises(Unavailable, match="could not be loaded"):
        make("st:ada/nothing")
