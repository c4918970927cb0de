"""Pools of every format keep their ids and their encoder, and an agent of another encoder refuses them."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from cual.agent import Agent
from cual.data import files
from cual.data.folder import FeaturesWriter, Made, reopen
from cual.data.pool import Pool, read_rows
from cual.data.table import Table
from cual.errors import BadFeatures, WrongEncoder
from cual.loop.adaptation import Adaptation

ENCODER = "toy@0123456789ab"
IDS = [f"{i}.jpg" for i in range(90)]
OLD_POOL = Path(__file__).parents[1] / "upgrades" / "release-0.1.0" / "pool.safetensors"


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(0, 1, (30, 8)) + 8 * np.eye(8)[c] for c in range(3)]).astype(np.float32)


def agent(X, encoder):
    return Agent.fit(X[:60], ["a"] * 30 + ["b"] * 30, encoder=encoder, buffer=50)


def as_npz(X, path):
    files.write(path / "f.npz", Table(X, ids=np.array(IDS), encoder=ENCODER))
    return path / "f.npz"


def as_parquet(X, path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"id": IDS, "embedding": X.tolist()}).replace_schema_metadata({"encoder": ENCODER})
    pq.write_table(table, path / "f.parquet")
    return path / "f.parquet"


def as_folder(X, path):
    with FeaturesWriter(path / "f", 8, made=Made(ENCODER)) as writer:
        writer.append(X, IDS)
    return path / "f"


@pytest.mark.parametrize("written", [as_npz, as_parquet, as_folder])
def test_another_encoder_is_refused_whatever_the_format(X, tmp_path, written):
    pool = Pool.of(files.read(written(X, tmp_path)))
    assert pool.encoder == ENCODER
    assert pool.ids == tuple(IDS)
    with pytest.raises(WrongEncoder, match=rf"pool was made by the encoder {ENCODER}.*other@1"):
        agent(X, "other@1").adapt(pool, 5)
    for encoder in (ENCODER, None):  # where the agent's is not known, only the width can tell
        assert agent(X, encoder).adapt(pool, 5).budget == 5


@pytest.mark.parametrize("written", [as_npz, as_parquet, as_folder])
def test_a_saved_pool_remembers_its_encoder(X, tmp_path, written):
    pool = Pool.of(files.read(written(X, tmp_path)))
    pool.save(tmp_path / "pool.safetensors")
    back = Pool.load(tmp_path / "pool.safetensors")
    assert back.encoder == ENCODER
    assert back.ids == pool.ids
    with pytest.raises(WrongEncoder):
        agent(X, "other@1").adapt(back, 5)
    agent(X, ENCODER).adapt(pool, 5).save(tmp_path / "task")
    assert Adaptation.load(tmp_path / "task").pool.encoder == ENCODER


def test_a_pool_of_release_0_1_0_has_no_encoder():
    pool = Pool.load(OLD_POOL)
    assert pool.encoder is None
    assert len(pool) == len(pool.ids) > 0


def test_a_plain_array_has_the_encoder_that_is_said(X):
    assert Pool(X).encoder is None
    with pytest.raises(WrongEncoder):
        agent(X, "other@1").adapt(Pool(X, encoder=ENCODER), 5)


def test_a_table_without_ids_gets_row_numbers(X):
    assert Pool.of(Table(X)).ids == tuple(range(90))


def test_a_table_with_nan_is_refused_by_its_id(X):
    broken = X.copy()
    broken[7, 3] = np.nan
    with pytest.raises(BadFeatures, match=r"pool row 7 \(id '7\.jpg'\) holds NaN in 1 of 8 columns"):
        Pool.of(Table(broken, ids=np.array(IDS)))


class Copies:
    """Does the work on what came out of a pickle: as in another process, which sees the same disk."""

    def __init__(self) -> None:
        self.asked = 0

    def map(self, work, folder, pieces, total):
        self.asked += 1
        for place, (features, *others) in enumerate(pieces):
            assert place < total
            sent = pickle.loads(pickle.dumps((work, folder, features, others)))
            X = sent[2] if folder is None else read_rows(reopen(sent[1]), sent[2])
            yield sent[0](X, *sent[3])


@pytest.mark.parametrize("written", [as_npz, as_folder])
def test_chunks_are_worked_on_elsewhere_as_here(X, tmp_path, written, monkeypatch):
    pool = Pool.of(files.read(written(X, tmp_path)))
    some = np.arange(0, 90, 2)[::-1].copy()

    def both():
        every = list(pool.map(torch.cumsum, beside=lambda part: (part.start % 2,)))
        return every, list(pool.map(torch.neg, some, width=16))

    copies = pool.elsewhere = Copies()
    both()
    assert copies.asked == 0, "a single chunk stays here"
    monkeypatch.setattr("cual.data.pool.CHUNK_BYTES", 4 * 8 * 7)
    elsewhere = both()
    assert copies.asked == 2
    pool.elsewhere = None
    for there, here in zip(elsewhere, both(), strict=True):
        assert [part for part, _ in there] == [part for part, _ in here]
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(there, here, strict=True))
    assert [part.stop - part.start for part, _ in here] == [3] * 15
    assert torch.equal(torch.cat([features for _, features in here]), -pool.take(some))
