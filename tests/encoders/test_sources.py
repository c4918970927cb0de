"""Folders of images, tables of text, datasets on disk: what is found in them, and how they are refused."""

import gzip
import json
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from cual.encoders.anything import is_features
from cual.encoders.sources import Columns, open_source, plain_source_columns, tables
from cual.errors import BadFile, BadImage, BadOption, DamagedFile


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


def test_links_to_folders_are_followed_but_never_in_circles(tmp_path):
    for name in ("here/cat/1.png", "there/2.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "here" / "dog").symlink_to(tmp_path / "there")
    (tmp_path / "here" / "cat" / "again").symlink_to(tmp_path / "here")
    (tmp_path / "there" / "loop").symlink_to(tmp_path / "there")
    assert [i.id for i in open_source(tmp_path / "here").items] == ["cat/1.png", "dog/2.png"]


def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "circle.jpg").symlink_to("circle.jpg")
    items = {i.id: i for i in open_source(tmp_path).items}
    for name, said in (
        ("pipe", "no regular file"),
        ("endless", "no regular file"),
        ("circle", "symbolic links"),
    ):
        with pytest.raises(BadImage, match=said):
            items[f"{name}.jpg"].load(64)


def test_names_that_are_no_text_are_written_out(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    os.rename(tmp_path / "a.png", folder + b"/\xff.png")
    (item,) = open_source(tmp_path).items
    assert (item.id, item.label) == ("caf\\xe9/\\xff.png", "caf\\xe9")
    assert item.source.encode().endswith(b"caf\\xe9/\\xff.png")
    assert item.load(64).size == (4, 4)


def test_folders_that_cannot_be_read_are_told(tmp_path, monkeypatch):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / name / "1.png")
    listing, scan = os.listdir, os.scandir

    def closed(real):
        def refuse(path):
            if str(path).endswith("dog"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        return refuse

    monkeypatch.setattr(os, "scandir", closed(scan))
    monkeypatch.setattr(os, "listdir", closed(listing))
    items = open_source(tmp_path).items
    assert [i.id for i in items] == ["cat/1.png", "dog"]
    with pytest.raises(BadImage, match="Permission denied"):
        items[1].load(64)
    (tmp_path / "cat" / "1.png").unlink()
    with pytest.raises(BadFile, match="1 folders in it cannot be read"):
        open_source(tmp_path)


def test_empty_folders_and_strangers(tmp_path):
    with pytest.raises(BadFile, match="no images"):
        open_source(tmp_path)
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(BadFile, match="neither an image, a folder"):
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


def test_marks_spaces_and_old_line_ends(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbftext, label\rhello, greet\r")
    assert loaded(open_source(tmp_path / "t.csv")) == [(0, "greet", "hello")]


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_source(path)


def test_rows_without_text_are_skipped_not_fatal(tmp_path):
    items = jsonl(
        tmp_path / "t.jsonl", {"text": "a"}, {"label": "x"}, {"text": 5}, {"text": "x" * 1_000_001}
    ).items
    for i, said in ((1, "no text but None"), (2, "no text but 5"), (3, "1,000,001 characters")):
        with pytest.raises(BadImage, match=said):
            items[i].load(64)
    assert items[0].load(64) == "a"


def test_half_characters_do_not_reach_an_encoder(tmp_path):
    (item,) = jsonl(tmp_path / "t.jsonl", {"text": "a \ud800", "label": "\udfff", "id": "\ud801"}).items
    for value in (item.load(64), item.label, item.id):
        value.encode()


def test_labels_of_all_types(tmp_path):
    values = [3, 3.0, 2.5, float("nan"), None, "", "x", True]
    source = jsonl(tmp_path / "t.jsonl", *({"text": "a", "label": v} for v in values))
    assert [i.label for i in source.items] == [3, 3, "2.5", None, None, None, "x", "True"]


def test_a_corrected_label_is_a_change(tmp_path):
    before, after = (jsonl(tmp_path / "t.jsonl", {"text": "a", "label": x}).items[0] for x in "xy")
    assert before.stamp != after.stamp


def test_ids_of_all_types(tmp_path):
    def ids(*values):
        return [i.id for i in jsonl(tmp_path / "t.jsonl", *({"text": "a", "id": v} for v in values)).items]

    assert ids(1, 2) == [1, 2]
    assert ids(1, "b", 2.5) == ["1", "b", "2.5"]
    assert ids(2**70, 1) == [str(2**70), "1"]
    for gap in (None, ""):
        with pytest.raises(BadFile, match=r"row 1 has no id \(column 'id'\)"):
            ids(1, gap)


def test_lines_that_are_no_rows(tmp_path):
    path = tmp_path / "t.jsonl"
    for line, said in (("[1]", "expected an object"), ("{", "line 1"), ('{"text":' + "[" * 200_000, "line 1")):
        path.write_text(line + "\n")
        with pytest.raises(BadFile, match=said):
            open_source(path)


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
    monkeypatch.setattr(tables, "MOST_BYTES", 1000)
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


def test_hugging_face_datasets_may_lack_labels(tmp_path):
    columns = {"text": ["a", "b", "c"], "label": [-1, None, 0]}
    assert [i.label for i in open_source(hf_dataset(tmp_path / "d", columns, LABELS)).items] == [
        None,
        None,
        "cat",
    ]
    with pytest.raises(DamagedFile, match="class 2, but there are 2"):
        open_source(hf_dataset(tmp_path / "e", {"text": ["a"], "label": [2]}, LABELS))


def test_of_several_splits_one_must_be_named(tmp_path):
    hf_dataset(tmp_path / "train", {"text": ["a"]}, {})
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(BadFile, match=r"several splits; name one of them: .*/train, .*/test"):
        open_source(tmp_path)
    assert len(open_source(tmp_path / "train")) == 1


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
    sent = pickle.loads(pickle.dumps([item.load.alone() for item in source.items]))
    assert sent[0](64).size == (5, 6)
    with pytest.raises(BadImage, match="no bytes"):
        sent[1](64)


def test_an_image_alone_is_sent_without_its_table(tmp_path):
    image = pa.array([{"bytes": bytes(10_000), "path": None}] * 50)
    item = open_source(hf_dataset(tmp_path / "d", {"image": image, "label": [0] * 50}, LABELS)).items[7]
    assert len(pickle.dumps(item.load.alone())) < 11_000


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


# -- what else a table says ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.jsonl.gz", "x.parquet"])
def test_plain_columns_of_a_table_of_text(tmp_path, name):
    rows = [
        {"id": "a", "text": "one", "label": "cat", "who": "Ada", "Class": "k"},
        {"id": "b", "text": "two", "label": "dog", "who": "<b>Bob</b>", "Class": "k"},
    ]
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ".jsonl" in name:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    else:
        mark = "\t" if ".tsv" in name else ","
        path.write_text(
            "\n".join(mark.join(cells) for cells in [rows[0], *(row.values() for row in rows)]) + "\n"
        )
    columns = plain_source_columns(path)
    assert columns.names == ("who",)
    assert [tuple(note) for note in columns.notes] == [("label", "labels"), ("Class", "labels")]
    assert list(columns) == [["Ada"], ["<b>Bob</b>"]]
    with pytest.raises(BadOption, match="seems to hold labels"):
        plain_source_columns(path, Columns(label="who"), ["who"])
    assert plain_source_columns(path, Columns(text="who")).names == ("text",)


def test_json_lines_may_have_a_column_in_some_rows_only(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b", "more": {"label": "cat"}, "n": 3}\n')
    columns = plain_source_columns(path)
    assert columns.names == ("more", "n")
    assert list(columns) == [[None, None], [None, 3]], "what is nested may be anything, labels too"
    assert [tuple(note) for note in columns.notes] == [("more", "shape")]


def test_plain_columns_of_a_dataset_leave_out_every_class(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "intent": datasets.ClassLabel(names=["buy", "sell"]),
            "who": datasets.Value("string"),
            "tags": datasets.Sequence(datasets.Value("string")),
        }
    )
    rows = {"text": ["a", "b"], "intent": [0, 1], "who": ["Ada", None], "tags": [["x"], []]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "d"))
    columns = plain_source_columns(tmp_path / "d")
    assert (columns.names, list(columns)) == (("who",), [["Ada"], [None]])
    assert [tuple(note) for note in columns.notes] == [("intent", "labels"), ("tags", "shape")]
