"""Files are written piece by piece, with the bytes that safetensors' own writer makes."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from cual import Agent, Pool, storage
from cual.errors import DamagedFile, ForeignFile, TooLarge
from worlds import SMALL

TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.float32,
    torch.float64,
    torch.int64,
]
SHAPES = [(), (0,), (1,), (3,), (2, 5), (4, 0, 2)]


@given(
    st.dictionaries(
        st.text(max_size=4), st.tuples(st.sampled_from(TYPES), st.sampled_from(SHAPES)), max_size=9
    ),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3)),
)
def test_files_are_those_of_safetensors(tmp_path_factory, kinds, body):
    tensors = {name: (3 * torch.rand(shape)).to(dtype) for name, (dtype, shape) in kinds.items()}
    file = tmp_path_factory.mktemp("storage") / "file"
    storage.write(file, "thing", body, storage.Late({name: lambda t=t: t for name, t in tensors.items()}))
    written = file.read_bytes()
    header = json.loads(written[8 : 8 + int.from_bytes(written[:8], "little")])
    meta = json.loads(header["__metadata__"]["cual"])
    sums = {name: storage.digest_of(tensor) for name, tensor in tensors.items()}
    assert meta == {"kind": "thing", "format": storage.FORMAT, "body": body, "sha256": sums}
    one = {"cual": header["__metadata__"]["cual"]}  # safetensors writes several in any order
    second = f',"sha256":"{header["__metadata__"]["sha256"]}"'.encode()
    length = 8 + int.from_bytes(written[:8], "little")
    assert written.count(second) == 1
    theirs = save(tensors, one)
    end = 8 + int.from_bytes(theirs[:8], "little")
    assert written[8:length].replace(second, b"").rstrip() == theirs[8:end].rstrip()
    assert written[length:] == theirs[end:]
    read_body, read = storage.read(file, "thing")
    assert read_body == body
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_tensors_with_gaps_are_written_as_they_are(tmp_path):
    table = torch.arange(12).reshape(3, 4)
    tensors = {
        "columns": table[:, ::2],
        "turned": table.T,
        "repeated": table[:, :1].expand(3, 4),
        "none": table[:0],
    }
    storage.write(tmp_path / "file", "thing", {}, tensors)
    read = storage.read(tmp_path / "file", "thing")[1]
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_a_body_longer_than_a_header_may_be_is_read_again(tmp_path):
    """Ids of 29.8 million rows, one by one, were written without a word and could never be read."""
    body = {"ids": "ü" * 60_000_000, "quotes": '"' * 3}
    storage.write(tmp_path / "file", "pool", body, {"X": torch.eye(2)})
    again, tensors = storage.read(tmp_path / "file", "pool")
    assert again == body
    assert list(tensors) == ["X"]


@pytest.mark.parametrize("ids", [["a", *range(1, 50)], [2**70 + i for i in range(50)]])
def test_a_pool_whose_ids_are_listed_survives_a_body_apart(tmp_path, monkeypatch, ids):
    monkeypatch.setattr(storage, "LONGEST_BODY", 100)
    Pool(np.eye(50, 3), ids).save(tmp_path / "pool")
    assert Pool.load(tmp_path / "pool").ids == ids
    body, tensors = storage.read(tmp_path / "pool", "pool", lambda name: name == "no such")
    assert (body["ids"], tensors) == (ids, {})
    with pytest.raises(ForeignFile, match="holds a cual pool"):
        storage.read(tmp_path / "pool", "agent")


def test_a_body_apart_that_is_cut_or_gone_is_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LONGEST_BODY", 100)
    storage.write(tmp_path / "file", "thing", {"names": "x" * 200}, {})
    data = (tmp_path / "file").read_bytes()
    for damage in (data[:-1], data.replace(b"xxxx", b'xx"x', 1), data.replace(b'"cual.body"', b'"cual.bodi"')):
        (tmp_path / "file").write_bytes(damage)
        with pytest.raises(DamagedFile):
            storage.read(tmp_path / "file", "thing")


def test_more_tensors_than_a_header_can_name_are_refused_when_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"as before")
    monkeypatch.setattr(storage, "LONGEST_HEADER", 1000)
    with pytest.raises(TooLarge, match="100 tensors"):
        storage.write(tmp_path / "file", "thing", {}, {str(i): torch.ones(1) for i in range(100)})
    assert (tmp_path / "file").read_bytes() == b"as before"
    assert len(list(tmp_path.iterdir())) == 1


def test_sections_are_those_that_are_looked_for_one_by_one():
    tensors = {
        name: torch.ones(1) for name in ("model.0.n", "model.0.mean.x", "model.10.n", "model.x", "head.n")
    }
    grouped = storage.sections(tensors, "model.")
    assert grouped == {key: storage.section(tensors, f"model.{key}.") for key in ("0", "10")}


def test_an_agent_looks_at_each_tensor_once_however_many_classes(tmp_path, monkeypatch):
    """Each class looked through the tensors of all: 26 seconds for 5,000 classes."""
    looked_at: list[str] = []

    class Counted(dict[str, torch.Tensor]):
        def items(self):  # type: ignore[override]
            for item in super().items():
                looked_at.append(item[0])
                yield item

    X = np.random.default_rng(0).normal(0, 1, (120, 4)) + np.repeat(np.arange(40), 3)[:, None]
    agent = Agent.fit(X, np.repeat(np.arange(40), 3), **SMALL)
    agent.save(tmp_path / "agent")
    read = storage.read
    monkeypatch.setattr(storage, "read", lambda *a: (read(*a)[0], Counted(read(*a)[1])))
    again = Agent.load(tmp_path / "agent")
    assert len(looked_at) <= 10 * len(set(looked_at))
    np.testing.assert_array_equal(again.novelty(X), agent.novelty(X))
