"""Tables of features on disk, whatever their format. Making features is the encoders' business."""

from pathlib import Path

from cual.data.dataset_folder import is_dataset_folder, read_dataset
from cual.data.npz import read_npy, read_npz, write_npz
from cual.data.parquet import read_parquet
from cual.data.table import Table
from cual.errors import BadFile, ForeignFile


def read(
    path: str | Path, *, ids: str | None = None, labels: str | None = None, unpack: Path | None = None
) -> Table:
    """Features of a `.npz`, `.npy` or `.parquet` file, a features folder, or a Hugging Face dataset on disk.

    Parameters
    ----------
    path
        `.npz` with `X`, optional `y`, `ids`, `class_names`, `encoder`, `domain`; `.npy` with X alone
        (memory-mapped); or parquet with one column of equally long lists of numbers, or else one numeric column
        per dimension, and optional `encoder` in the metadata of its schema.
    ids, labels
        Of parquet and of a dataset: the columns of ids and labels, where they are not called as usual.
    unpack
        A folder for what is unpacked of a stranger's `.npz`, so that it need not fit into memory.

    >>> import tempfile
    >>> import numpy as np
    >>> file = Path(tempfile.mkdtemp()) / "first.npz"
    >>> np.savez(file, X=np.eye(2), y=np.array([1, 0]), class_names=np.array(["cat", "dog"]))
    >>> read(file).labels().tolist()
    ['dog', 'cat']
    """
    path = Path(path)
    if not path.exists():
        raise BadFile(f"{path}: no such file")
    if path.is_dir():
        if is_dataset_folder(path):
            return read_dataset(path, ids, labels)
        from cual.data.folder import FeaturesFolder

        return FeaturesFolder.open(path).table()
    if path.suffix == ".npz":
        return read_npz(path, unpack)
    if path.suffix == ".npy":
        return read_npy(path)
    if path.suffix in (".parquet", ".pq"):
        return read_parquet(path, ids, labels)
    raise ForeignFile(f"{path}: features come as .npz, .npy or .parquet, not {path.suffix or 'without suffix'}")


def write(path: str | Path, table: Table) -> None:
    """Write a `.npz`; a reader never sees half a file.

    >>> import tempfile
    >>> import numpy as np
    >>> file = Path(tempfile.mkdtemp()) / "pool.npz"
    >>> write(file, Table(np.eye(2), ids=np.array(["a.jpg", "b.jpg"]), encoder="dino-vits16@0123456789ab"))
    >>> read(file).ids.tolist(), read(file).encoder
    (['a.jpg', 'b.jpg'], 'dino-vits16@0123456789ab')
    """
    write_npz(Path(path), table)
