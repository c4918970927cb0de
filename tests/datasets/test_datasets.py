"""The paper's datasets from small files in the official layouts; archives that would harm are refused."""

import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cual.datasets import archives, datasets, get
from cual.datasets.archives import members, unpack
from cual.datasets.imagenet21k import IMAGES, SYNSETS, _synsets, imagenet1k
from cual.datasets.places import mos_classes
from cual.encoders.sources import open_source
from cual.encoders.weights import Download
from cual.errors import BadFile, BadOption, DamagedFile, Unavailable, UnknownName


def jpeg(shade=0):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(file, "JPEG")
    return file.getvalue()


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tarred(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def unpinned(monkeypatch, name):
    """Take a dataset's hashes away: the small files of a test have others."""
    this = datasets[name]
    plain = Download(this.download.url, most_bytes=this.download.most_bytes)
    monkeypatch.setitem(datasets._members, name, type(this)(**{**this.__dict__, "download": plain}))


EUROSAT = {f"2750/{c}/{c}_{i}.jpg": jpeg(i) for c in ("Forest", "SeaLake") for i in (1, 2, 3)}


@pytest.mark.parametrize("kind", ["archive", "folder with archive", "unpacked"])
def test_eurosat(tmp_path, monkeypatch, kind):
    unpinned(monkeypatch, "eurosat")
    archive = zipped(tmp_path / "EuroSAT.zip", {**EUROSAT, "2750/readme.txt": b"x"})
    root = {"archive": archive, "folder with archive": tmp_path, "unpacked": tmp_path / "here"}[kind]
    if kind == "unpacked":
        zipfile.ZipFile(archive).extractall(root)
    told = get("eurosat", tmp_path / "out", root)
    assert told["classes"] == {"Forest": 3, "SeaLake": 3}
    assert json.loads((tmp_path / "out" / "dataset.json").read_text())["licence"] == "MIT"
    source = open_source(tmp_path / "out")
    assert {i.label for i in source.items} == {"Forest", "SeaLake"}
    assert (tmp_path / "out" / "Forest" / "Forest_2.jpg").read_bytes() == jpeg(2)
    with pytest.raises(BadOption, match="exists"):
        get("eurosat", tmp_path / "out", root)


def test_a_wrong_archive_is_refused_however_it_is_named(tmp_path):
    zipped(tmp_path / "EuroSAT.zip", EUROSAT)
    tarred(tmp_path / "Places.tar.gz", {"a.jpg": b""})
    for name, root, kind in (
        ("eurosat", tmp_path, "SHA-256"),
        ("eurosat", tmp_path / "EuroSAT.zip", "SHA-256"),
        ("places365-ood", tmp_path, "MD5"),
        ("places365-ood", tmp_path / "Places.tar.gz", "MD5"),
    ):
        with pytest.raises(DamagedFile, match=f"its {kind} is"):
            get(name, tmp_path / "out", root)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["EuroSAT.zip", "Places.tar.gz"]  # a root is only read


def test_cifar100_by_superclass(tmp_path, monkeypatch):
    unpinned(monkeypatch, "cifar100-super")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    labels = [(0, 4), (19, 99), (0, 1), (3, 50), (19, 2)]
    data = b"".join(bytes(label) + p.tobytes() for label, p in zip(labels, pixels, strict=True))
    names = {
        "coarse": "\n".join(f"coarse{i}" for i in range(20)),
        "fine": "\n".join(f"fine{i}" for i in range(100)),
    }
    files = {f"cifar-100-binary/{k}_label_names.txt": (v + "\n").encode() for k, v in names.items()}
    files |= {"cifar-100-binary/train.bin": data, "cifar-100-binary/test.bin": b""}
    tarred(tmp_path / "cifar-100-binary.tar.gz", files)
    told = get("cifar100-super", tmp_path / "out", tmp_path)
    assert told["classes"] == {"coarse0": 2, "coarse19": 2, "coarse3": 1}
    stored = np.asarray(Image.open(tmp_path / "out" / "coarse19" / "00001-fine99.png"))
    assert np.array_equal(stored.transpose(2, 0, 1), pixels[1])
    for bad in (data[:-1], bytes([20, 0]) + data[2:]):
        tarred(tmp_path / "bad.tar.gz", {**files, "cifar-100-binary/train.bin": bad})
        with pytest.raises(DamagedFile, match=r"train\.bin"):
            get("cifar100-super", tmp_path / "bad", tmp_path / "bad.tar.gz")
    tarred(tmp_path / "other.tar.gz", {"x.txt": b""})
    with pytest.raises(BadFile, match="holds nothing of cifar100-super"):
        get("cifar100-super", tmp_path / "bad", tmp_path / "other.tar.gz")


def test_places_by_the_names_of_its_files(tmp_path):
    names = ("b_badlands_00000038", "b_badlands_00000043", "w_wheat_field_00004990", "d_desert-sand_00000001")
    files = {f"Places/images/{n}.jpg": jpeg(i) for i, n in enumerate(names)}
    archive = tarred(tmp_path / "p.tar.gz", {**files, "Places/._x": b"", "Places/list.txt": b""})
    told = get("places365-ood", tmp_path / "out", archive)
    assert told["classes"] == {"badlands": 2, "desert-sand": 1, "wheat_field": 1}
    assert (tmp_path / "out" / "wheat_field" / "00004990.jpg").read_bytes() == jpeg(2)
    assert told["selection"]["left out, no class in the name"] == 0
    assert told["selection"]["here, not in MOS's list"] == []
    assert len(told["selection"]["in MOS's list, not here"]) == 47


def test_images_of_places_that_no_class_is_known_of_are_counted(tmp_path):
    names = ("b_badlands_00000038", "Places365_val_00012755", "m_moon_00000001")
    archive = tarred(tmp_path / "p.tar.gz", {f"Places/images/{n}.jpg": jpeg() for n in names})
    told = get("places365-ood", tmp_path / "out", archive)
    assert told["classes"] == {"badlands": 1, "moon": 1}
    assert told["selection"]["left out, no class in the name"] == 1
    assert told["selection"]["here, not in MOS's list"] == ["moon"]
    assert len(mos_classes()) == 50


def test_plants_are_the_20_most_populous_species(tmp_path):
    counts = {f"Species {i:02d}": 1 + i % 7 for i in range(25)}
    root = tmp_path / "train_val_images"
    for species, n in counts.items():
        for i in range(n):
            file = root / "Plantae" / species / f"{i}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(jpeg(i))
    (root / "Aves" / "Anas acuta").mkdir(parents=True)
    (root / "Aves" / "Anas acuta" / "0.jpg").write_bytes(jpeg())
    told = get("inat-plants-20", tmp_path / "out", tmp_path)
    expected = sorted(counts, key=lambda s: (-counts[s], s))[:20]
    assert sorted(told["classes"]) == sorted(expected)
    assert list(told["selection"]["images"]) == expected
    assert told["images"] == sum(counts[s] for s in expected)


@pytest.mark.parametrize("kind", ["tar", "folder"])
def test_im21k_ood_is_computed_and_written_down(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("cual.datasets.imagenet21k.SYNSETS", 3)
    monkeypatch.setattr("cual.datasets.imagenet21k.IMAGES", 4)
    root = tmp_path / "winter21_whole"
    root.mkdir()
    counts = {"n00000001": 4, "n00000002": 9, "n00000003": 6, "n00000004": 6, "n00000005": 2, "n01440764": 50}
    for wnid, n in counts.items():
        files = {f"{wnid}_{i}.JPEG": jpeg(i) for i in range(n)}
        if kind == "tar":
            tarred(root / f"{wnid}.tar", files, "w")
        else:
            (root / wnid).mkdir()
            for name, data in files.items():
                (root / wnid / name).write_bytes(data)
    told = get("im21k-ood", tmp_path / "out", root)
    assert told["classes"] == {"n00000002": 4, "n00000003": 4, "n00000004": 4}
    assert told["selection"]["synsets"] == {"n00000002": 9, "n00000003": 6, "n00000004": 6}
    again = get("im21k-ood", tmp_path / "again", root)
    first, second = (sorted(p.name for p in (tmp_path / d / "n00000002").iterdir()) for d in ("out", "again"))
    assert first == second
    assert again["images"] == 12
    monkeypatch.setattr("cual.datasets.imagenet21k.IMAGES", 7)
    with pytest.raises(BadFile, match="has 1 synsets"):
        get("im21k-ood", tmp_path / "more", root)


def test_the_images_of_synsets_are_not_listed_to_find_the_synsets(tmp_path, monkeypatch):
    """There are 13 million of them, and their names begin like those of synsets."""
    for place in ("n00000001", "deep/er/n00000002", "too/deep/to/be/n00000003"):
        (tmp_path / place / "n00000009").mkdir(parents=True)
    (tmp_path / "n00000004.tar").write_bytes(b"")
    (tmp_path / "n00000005.txt").write_bytes(b"")
    assert sorted(_synsets(tmp_path)) == ["n00000001", "n00000002", "n00000004"]


def test_the_list_of_imagenet1k():
    known = imagenet1k()
    assert len(known) == 1000
    assert all(re.fullmatch(r"n\d{8}", wnid) for wnid in known)
    assert {"n01440764", "n02123045", "n15075141"} <= known  # tench, tabby cat, toilet tissue
    assert (SYNSETS, IMAGES) == (50, 500)


@pytest.mark.parametrize("name", list(datasets))
def test_every_dataset_says_where_it_comes_from(name, tmp_path, monkeypatch):
    this = datasets[name]
    assert this.homepage.startswith("https://")
    assert this.licence
    assert this.splits
    assert "--root" in this.by_hand
    if this.download is not None:
        assert this.download.sha256 or this.download.md5
        plain = Download("http://127.0.0.1:9/a.zip", most_bytes=this.download.most_bytes)
        monkeypatch.setitem(datasets._members, name, type(this)(**{**this.__dict__, "download": plain}))
    with pytest.raises(Unavailable, match=r"--root"):
        get(name, tmp_path / "out")
    with pytest.raises(BadFile, match=r"no such file.*--root"):
        get(name, tmp_path / "out", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match=r"holds nothing|are needed"):
        get(name, tmp_path / "out", tmp_path / "empty")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(BadFile, match="no archive"):
        get(name, tmp_path / "out", tmp_path / "x.txt")


def test_unknown_datasets():
    with pytest.raises(UnknownName, match="eurosat"):
        get("cifar10", Path("x"))


# -- archives


@pytest.mark.parametrize("name", ["../out.jpg", "/etc/out.jpg", "a/../../out.jpg", "a\\..\\out.jpg"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_nothing_lands_outside(tmp_path, name, kind):
    path = (zipped if kind == "zip" else tarred)(
        tmp_path / f"a.{'zip' if kind == 'zip' else 'tar.gz'}", {name: b"x"}
    )
    with pytest.raises(BadFile, match="outside of its folder"):
        list(members(path))


def test_links_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        hard = tarfile.TarInfo("hard.jpg")
        hard.type, hard.linkname = tarfile.LNKTYPE, "/etc/passwd"
        archive.addfile(hard)
    assert list(members(tmp_path / "a.tar")) == []
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("link.jpg")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    assert list(members(tmp_path / "a.zip")) == []


def test_what_grows_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LARGEST_FILE", 1000)
    path = zipped(tmp_path / "a.zip", {"a.jpg": b"0" * 1001})
    with pytest.raises(BadFile, match="more than is allowed"):
        list(members(path))
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    path = tarred(tmp_path / "a.tar.gz", {f"{i}.jpg": b"" for i in range(3)})
    with pytest.raises(BadFile, match="more than is allowed"):
        list(members(path))


def test_a_tar_s_own_records_are_bounded(tmp_path):
    """They are read whole into memory, and may say that they are as long as they like."""
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        info = tarfile.TarInfo("long")
        info.type, info.size = kind, 2**40
        (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + b"\0" * 2048)
        with pytest.raises(DamagedFile, match="1,099,511,627,776 bytes that is no file"):
            list(members(tmp_path / "a.tar"))
    long = "x" * 90 + "/" + "y" * 90 + ".jpg"
    assert [m.name for m in members(tarred(tmp_path / "b.tar", {long: b"1"}, "w"))] == [long]


def test_a_disk_that_is_full_is_not_the_archive_s_fault(tmp_path, monkeypatch):
    archive = zipped(tmp_path / "a.zip", {"a.jpg": b"0" * 100})

    def full(self, mode):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(BadFile, match=r"all/a\.jpg cannot be written: No space left on device") as told:
        unpack(archive, tmp_path / "out", lambda name: f"all/{name}")
    assert not isinstance(told.value, DamagedFile)


def test_a_class_of_cifar100_cannot_be_a_path(tmp_path):
    names = {kind: [f"{kind}{i}" for i in range(n)] for kind, n in (("coarse", 20), ("fine", 100))}
    names["coarse"][3] = "../../x"
    files = {f"{kind}_label_names.txt": "\n".join(held).encode() for kind, held in names.items()}
    archive = tarred(tmp_path / "c.tar.gz", {**files, "train.bin": b""})
    with pytest.raises(DamagedFile, match="called like a path"):
        get("cifar100-super", tmp_path / "out", archive)


def test_damaged_archives(tmp_path):
    whole = tarred(tmp_path / "a.tar.gz", {"a.jpg": jpeg() * 50, "b.jpg": jpeg() * 50}).read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFile):
        unpack(tmp_path / "b.tar.gz", tmp_path / "out", lambda name: f"all/{name}")
    (tmp_path / "c.zip").write_bytes(b"PK nothing")
    with pytest.raises(DamagedFile, match="fetch it again"):
        list(members(tmp_path / "c.zip"))
