"""Folders of images, tables of text, datasets on disk: what is found in them, and how they are refused."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from cual.encoders import sources
from cual.encoders.anything import is_features
from cual.encoders.sources import Columns, open_source
from cual.errors import BadFile, BadImage, DamagedFile


def loaded(source):
    return [(item.id, item.label, item.load(64)) for item in source.items]


def test_image_folders(tmp_path):
    for name in ("dog/2.jpg", "dog/deep/er/1.PNG", "cat/ä b.jpg", "loose.gif"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), "red").save(tmp_path / name)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.jpg").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("x")
    source = open_source(tmp_path)
    assert source.kind == "image"
    assert [(i.id, i.label) for i in source.items] == [
        ("loose.gif", None),
        ("cat/ä b.jpg", "cat"),
        ("dog/2.jpg", "dog"),
        ("dog/deep/er/1.PNG", "dog"),
    ]
    assert source.items[0].load(64).size == (4, 4)
    before = source.items[2].stamp
    Image.new("RGB", (9, 9), "blue").save(tmp_path / "dog/2.jpg")
    assert open_source(tmp_path).items[2].stamp != before
    (tmp_path / "dog/2.jpg").unlink()
    (tmp_path / "dog/2.jpg").symlink_to(tmp_path / "nowhere.jpg")
    with pytest.raises(BadImage, match="FileNotFound"):
        open_source(tmp_path).items[2].load(64)


def test_empty_folders_and_strangers(tmp_path):
    with pytest.raises(BadFile, match="no images"):
        open_source(tmp_path)
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(BadFile, match="neither a folder"):
        open_source(tmp_path / "a.doc")
    with pytest.raises(BadFile, match="no such file"):
        open_source(tmp_path / "b.csv")


ROWS = [("hello, you", "greet"), ('she said "hi"\nand left', "tell"), ("ŝi", "")]


def table(path, kind):
    if kind == "parquet":
        pq.write_table(pa.table({"text": [r[0] for r in ROWS], "label": [r[1] or None for r in ROWS]}), path)
        return
    if kind.startswith("jsonl"):
        text = "".join(json.dumps({"text": t, "label": x or None}) + "\n" for t, x in ROWS)
    else:
        mark = "\t" if kind.startswith("tsv") else ","
        quoted = ['"{}"'.format(t.replace('"', '""')) + mark + x for t, x in ROWS]
        text = f"text{mark}label\n" + "\n".join(quoted) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "parquet"])
def test_text_tables(tmp_path, kind):
    table(tmp_path / f"t.{kind}", kind)
    source = open_source(tmp_path / f"t.{kind}")
    assert source.kind == "text"
    assert loaded(source) == [(0, "greet", ROWS[0][0]), (1, "tell", ROWS[1][0]), (2, None, "ŝi")]
    assert len({i.stamp for i in source.items}) == 3


def test_columns_can_be_named(tmp_path):
    (tmp_path / "t.csv").write_text("key,question,intent\nq1,why?,ask\n")
    with pytest.raises(BadFile, match=r"no column of text.*key, question, intent"):
        open_source(tmp_path / "t.csv")
    source = open_source(tmp_path / "t.csv", Columns("question", "intent", "key"))
    assert loaded(source) == [("q1", "ask", "why?")]
    with pytest.raises(BadFile, match="no column 'answer'"):
        open_source(tmp_path / "t.csv", Columns("answer"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"text,label\na\n", "more or fewer columns"),
        (b"text,label\na,b,c\n", "more or fewer columns"),
        (b"text\n\xff\xfe\n", "UTF-8"),
        (b"", "no column of text"),
        (b"text\n" + b"x" * 1_000_002, "whole table"),
    ],
)
def test_bad_tables_are_refused(tmp_path, data, said):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(BadFile, match=said):
        open_source(tmp_path / "t.csv")


def test_bad_archives_are_refused(tmp_path, monkeypatch):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"text\n" + b"a\n" * 1000)[:-20])
    with pytest.raises(DamagedFile):
        open_source(tmp_path / "t.csv.gz")
    (tmp_path / "u.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(DamagedFile):
        open_source(tmp_path / "u.csv.gz")
    monkeypatch.setattr(sources, "MOST_BYTES", 1000)
    (tmp_path / "v.csv.gz").write_bytes(gzip.compress(b"text\n" + b"aaaa\n" * 1000))
    with pytest.raises(BadFile, match="unpacks to more than 1,000"):
        open_source(tmp_path / "v.csv.gz")


def hf_dataset(path, columns, features):
    """As `datasets.Dataset.save_to_disk` writes it."""
    path.mkdir()
    held = pa.table(columns)
    with (
        pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, held.schema) as out,
    ):
        out.write_table(held)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (path / "dataset_info.json").write_text(json.dumps({"features": features}))
    return path


LABELS = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}


def test_hugging_face_datasets_of_text(tmp_path):
    path = hf_dataset(
        tmp_path / "d", {"text": ["a", "b"], "label": [1, 0]}, {"text": {"_type": "Value"}, **LABELS}
    )
    assert loaded(open_source(path)) == [(0, "dog", "a"), (1, "cat", "b")]


def test_hugging_face_datasets_of_images(tmp_path):
    Image.new("RGB", (5, 6), "red").save(tmp_path / "i.png")
    image = pa.array(
        [{"bytes": (tmp_path / "i.png").read_bytes(), "path": None}, {"bytes": None, "path": "x.png"}]
    )
    source = open_source(hf_dataset(tmp_path / "d", {"image": image, "label": [0, 1]}, LABELS))
    assert source.kind == "image"
    assert (source.items[0].label, source.items[0].load(64).size) == ("cat", (5, 6))
    with pytest.raises(BadImage, match="no bytes"):
        source.items[1].load(64)


def test_damaged_hugging_face_datasets(tmp_path):
    path = hf_dataset(tmp_path / "d", {"text": ["a"]}, {})
    (path / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "../d/data-00000-of-00001.arrow"}]})
    )
    with pytest.raises(DamagedFile, match="outside of it"):
        open_source(path)
    (path / "state.json").write_text("{")
    with pytest.raises(DamagedFile):
        open_source(path)
    with pytest.raises(BadFile, match="no column of text or images"):
        open_source(hf_dataset(tmp_path / "e", {"sound": ["a"]}, {}))


def test_parquet_of_features_is_told_from_parquet_of_text(tmp_path):
    pq.write_table(pa.table({"text": ["a"], "label": ["x"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"text": ["a"], "X": [[1.0, 2.0]]}), tmp_path / "vectors.parquet")
    pq.write_table(pa.table({"f0": [1.0], "label": ["x"]}), tmp_path / "columns.parquet")
    np.savez(tmp_path / "f.npz", X=np.eye(2))
    told = {p.name: is_features(p) for p in tmp_path.iterdir()}
    assert told == {"text.parquet": False, "vectors.parquet": True, "columns.parquet": True, "f.npz": True}
