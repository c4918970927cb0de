"""A flipped bit in a file of an agent or an adaptation is an error, never another prediction."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

from cual import Adaptation, Agent, storage
from cual.errors import BadFile, DamagedFile
from cual.loop.files import AGENT, CACHE, JOURNAL, POOL
from cual.loop.journal import read_events
from worlds import World, file_bytes

FLIPS = 120


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def places(data: bytes, n: int = FLIPS) -> list[int]:
    """Bits all over a file, most of them where its features are, and many where its names are."""
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(data[:8], "little")
    return [*rng.integers(0, 8 * header, n // 3), *rng.integers(0, 8 * len(data), n - n // 3)]


def test_no_single_flipped_bit_of_an_agent_is_loaded(world: World, tmp_path: Path) -> None:
    path = tmp_path / "agent"
    world.agent().save(path)
    whole = path.read_bytes()
    loaded = list[int]()
    for bit in places(whole):
        path.write_bytes(flipped(whole, int(bit)))
        try:
            Agent.load(path)
        except BadFile:
            continue
        loaded.append(int(bit))
    assert not loaded, f"{len(loaded)} of {FLIPS} flipped bits were not noticed"


@pytest.mark.parametrize("file", [AGENT, POOL, JOURNAL])
def test_no_single_flipped_bit_of_an_adaptation_is_loaded(world: World, tmp_path: Path, file: str) -> None:
    task = world.answer_all(world.adapt())
    task.save(tmp_path / "task")
    path = tmp_path / "task" / file
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for bit in rng.integers(0, 8 * len(whole) - 8, FLIPS // 2):  # the last byte ends the last line
        path.write_bytes(flipped(whole, int(bit)))
        with pytest.raises(BadFile):
            Adaptation.load(tmp_path / "task")


def test_a_first_line_whose_checksum_is_damaged_is_not_taken_for_one_of_an_earlier_release(
    world: World, tmp_path: Path
) -> None:
    """Those have none. Every bit of the checksum and of its name is flipped, with one event and with more."""
    task = world.adapt()
    task.save(tmp_path / "task")
    path = tmp_path / "task" / JOURNAL
    task.ask()
    for _ in range(2):
        whole = path.read_bytes()
        end = whole.index(b"\n")
        for bit in range(8 * (end - 79), 8 * end):
            path.write_bytes(flipped(whole, bit))
            with pytest.raises(BadFile):
                read_events(path)
        path.write_bytes(whole)
        task.save(tmp_path / "task")
    assert whole.count(b"\n") > 1


def test_a_cache_with_a_flipped_bit_is_computed_again(world: World, tmp_path: Path) -> None:
    task = world.adapt()
    query = task.ask()
    assert query is not None
    task.save(tmp_path / "task")
    path = tmp_path / "task" / CACHE
    path.write_bytes(flipped(path.read_bytes(), 8 * path.stat().st_size - 100))
    again = Adaptation.load(tmp_path / "task")
    ends = [file_bytes(world.answer_all(one).finish(), tmp_path) for one in (task, again)]
    assert ends[0] == ends[1]


def test_a_checksum_cannot_go_unnoticed(world: World, tmp_path: Path) -> None:
    """Nor one that is taken out of the header, and a tensor that is put in."""
    path = tmp_path / "agent"
    world.agent().save(path)
    whole = path.read_bytes()
    assert whole.count(b'"sha256"') == 1
    path.write_bytes(whole.replace(b'"sha256"', b'"sha255"'))
    with pytest.raises(DamagedFile):
        Agent.load(path)
    tensors = {"one": torch.ones(3)}
    storage.write(path, "thing", {}, tensors)
    length = int.from_bytes(path.read_bytes()[:8], "little")
    meta = json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]
    path.write_bytes(save({**tensors, "two": torch.ones(2)}, {"cual": meta["cual"]}))
    with pytest.raises(DamagedFile):
        storage.read(path, "thing")


def test_files_without_checksums_are_still_read(world: World, tmp_path: Path) -> None:
    tensors = {"one": torch.ones(3)}
    meta = {"kind": "thing", "format": 2, "body": {"a": 1}}
    (tmp_path / "file").write_bytes(save(tensors, {"cual": json.dumps(meta)}))
    body, read = storage.read(tmp_path / "file", "thing")
    assert body == {"a": 1}
    assert torch.equal(read["one"], tensors["one"])
    assert not storage.verify(tmp_path / "file")


def test_some_tensors_are_checked_without_the_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    storage.write(path, "thing", {}, {"large": torch.zeros(1000), "small": torch.arange(3)})
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, 8 * (len(whole) - 400)))  # in the zeros, which come last
    assert storage.read(path, "thing", lambda name: name == "small")[1]["small"].tolist() == [0, 1, 2]
    with pytest.raises(DamagedFile, match="large"):
        storage.read(path, "thing")
    with pytest.raises(DamagedFile, match="large"):
        storage.verify(path)


def test_a_large_file_is_hashed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LARGE", 1000)
    path = tmp_path / "file"
    storage.write(path, "thing", {}, {"X": torch.zeros(10_000)})
    hashed = list[str]()
    digest = storage.digest_of
    monkeypatch.setattr(storage, "digest_of", lambda tensor: (hashed.append("X"), digest(tensor))[1])
    for _ in range(3):
        storage.read(path, "thing")
    assert len(hashed) == 1
    path.write_bytes(flipped(path.read_bytes(), 8 * path.stat().st_size - 100))
    with pytest.raises(DamagedFile):
        storage.read(path, "thing")


def test_a_journal_of_before_goes_on_with_checksums(world: World, tmp_path: Path) -> None:
    task = world.adapt()
    query = task.ask()
    assert query is not None
    task.save(tmp_path / "task")
    path = tmp_path / "task" / JOURNAL
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "sha256"}) + "\n" for row in rows))
    again = Adaptation.load(tmp_path / "task")
    again.tell(query.id, {i: world.truth[i] for i in query.ids})
    again.save(tmp_path / "task")
    assert b'"sha256"' in path.read_bytes().splitlines()[-1]
    assert Adaptation.load(tmp_path / "task").answers == again.answers
