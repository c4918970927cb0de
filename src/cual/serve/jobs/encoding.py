"""What came for an agent or a pool, turned into features: unpacked, checked, encoded. A part of workers' jobs.

All of it can be killed and goes on the next time. Whatever was sent is of strangers: archives are unpacked
within limits, pictures decoded in processes of their own, and nothing leads out of the folder that was named.
"""

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from cual.datasets.archives import members, put
from cual.errors import BadFile, BadImage, BadOption, NotAllowed, TooLarge
from cual.serve.jobs import pictures
from cual.serve.jobs.decoding import Decoders, input_of
from cual.serve.rules.messages import without_paths
from cual.serve.rules.sources import SOURCE, ZIP, wanted_members
from cual.types import Progress

if TYPE_CHECKING:
    from cual.encoders.base import Encoder
    from cual.encoders.embedding import Skipped
    from cual.encoders.sources import Item, Source

MOST_BYTES = 16 * 2**30
"""What an archive may unpack to."""
MOST_PARQUET = 2 * 2**30
"""The same of a parquet file, which is read into memory; `.npz` files are not."""
MOST_LABELLED = 2**28
"""Numbers of features that an agent is made of or taught: 1 GiB, a few times, while it learns."""
MOST_ROWS = 20_000_000
"""Samples of a pool of features; twice as many as was tried (docs/large-pools.md)."""
MOST_FILES = 100_000
_HALF, _ITEMS = ".items", "items"


@dataclass(frozen=True)
class Place:
    """Where samples lie, and the folder that nothing may lead out of."""

    path: Path
    root: Path


def place(folder: Path, source: dict[str, Any], progress: Progress) -> Place:
    """Where the samples of what is made in `folder` lie; an archive is unpacked first."""
    if source["upload"]:
        path, root = folder / SOURCE / source["path"], folder / SOURCE
    else:
        path, root = Path(source["path"]), Path(source["root"])
        if path.resolve() != path:  # a link was put in its place since
            raise NotAllowed(f"{path} has changed since it was added; add it again")
    if path.suffix.lower() != ZIP or path.is_dir():
        return Place(path, root)
    items = folder / SOURCE / _ITEMS
    if not items.exists():
        _unpack(path, items.with_name(_HALF), progress)
        items.with_name(_HALF).rename(items)
    return Place(items, folder / SOURCE)


def check_unpacked(path: Path) -> None:
    """Refuse an .npz or a parquet file that would take too much memory."""
    if path.suffix == ".parquet" and path.is_file():
        _check_size(path, _parquet_bytes(path), MOST_PARQUET)
    if path.suffix == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            size = sum(member.file_size for member in packed.infolist())
        _check_size(path, size, MOST_BYTES)


def check_rows(rows: int) -> None:
    """Refuse a pool of more samples than a machine has room for, at some 70 bytes each beside the features.

    >>> check_rows(10**9)
    Traceback (most recent call last):
    cual.errors.TooLarge: 1,000,000,000 samples are too many for one pool; at most 20,000,000 are taken
    """
    if rows > MOST_ROWS:
        raise TooLarge(f"{rows:,} samples are too many for one pool; at most {MOST_ROWS:,} are taken")


def check_labelled(shape: tuple[int, ...]) -> None:
    """Refuse features with labels that would take too much memory: all of them are learned from at once.

    >>> check_labelled((1000, 384))
    >>> check_labelled((2**20, 4096))
    Traceback (most recent call last):
    cual.errors.TooLarge: 1,048,576 rows of 4,096 numbers are too many to learn from here; at most ...
    """
    rows, width = shape
    if rows * width > MOST_LABELLED:
        raise TooLarge(
            f"{rows:,} rows of {width:,} numbers are too many to learn from here; at most "
            f"{MOST_LABELLED // width:,} rows of that width are taken. Use `cual fit`, and add the agent"
        )


def _check_size(path: Path, size: int, most: int) -> None:
    if size > most:
        raise TooLarge(f"{path.name} unpacks to {size:,} bytes; at most {most:,} are taken")


def _parquet_bytes(path: Path) -> int:
    """What the columns of a parquet file take in memory, as it says itself: a value that comes again and again
    is written down once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        said: Any = cast(Any, pq).read_metadata(path)
    except (pa.ArrowInvalid, OSError):
        raise BadFile(f"{path.name} is not a whole parquet file") from None
    groups = [said.row_group(number) for number in range(said.num_row_groups)]
    values = sum(int(group.column(i).num_values) for group in groups for i in range(group.num_columns))
    return max(8 * values, sum(int(group.total_byte_size) for group in groups))


def refuse_links_out(at: Place) -> None:
    """Files that a reader opens by itself must lie where they seem to lie."""
    for file in at.path.iterdir():
        if file.is_symlink() and not pictures.inside(file, at.root):
            raise NotAllowed(f"{file.name} leads out of the folder")


# -- archives --------------------------------------------------------------------------------------------------


def _unpack(path: Path, into: Path, progress: Progress) -> None:
    """Put the pictures of a zip, or the parts of a features folder, below `into`."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    wanted = [member.name for member in wanted_members(path)]
    if len(wanted) > MOST_FILES:
        raise TooLarge(f"the zip holds {len(wanted):,} files; at most {MOST_FILES:,} are taken")
    above = _shared_folders(wanted)
    taken, done, total = set(wanted), 0, 0
    for member in members(path):
        if member.name not in taken:
            continue
        total += member.size
        if total > MOST_BYTES:
            raise TooLarge(f"the zip unpacks to more than {MOST_BYTES:,} bytes")
        progress("unpacking", done, len(wanted))
        put(member, into.joinpath(*PurePosixPath(member.name).parts[above:]))
        done += 1


def _shared_folders(names: list[str]) -> int:
    """How many folders lie around the folders of the classes: many programs put all into one of the zip's name.

    >>> _shared_folders(["birds/owl/1.png", "birds/bat/1.png"]), _shared_folders(["owl/1.png", "bat/1.png"])
    (1, 0)
    >>> _shared_folders(["birds/1.png", "birds/2.png"]), _shared_folders(["f/manifest.json", "f/000000.npy"])
    (0, 1)
    """
    parts = [PurePosixPath(name).parts for name in names]
    deepest = 2 if any(part[-1] == "manifest.json" for part in parts) else 3
    above = 0
    while all(len(part) >= above + deepest and part[above] == parts[0][above] for part in parts):
        above += 1
    return above


# -- encoding --------------------------------------------------------------------------------------------------


def open_items(at: Place, columns: dict[str, Any]) -> tuple["Source", list[dict[str, str]]]:
    """The images or texts that lie at a place, without those that lead out of it; and what was left out."""
    from cual.encoders.sources import Columns, Most, Source, open_source

    if (at.path / "state.json").exists():  # tables that are opened by the names it gives
        refuse_links_out(at)
    source = open_source(at.path, Columns(**columns), Most())
    out = {i.source for i in source.items if i.source and not pictures.inside(Path(i.source), at.root)}
    kept = [i for i in source.items if i.source not in out]
    left = [
        {"source": pictures.short(s, at.path), "reason": "leads out of the folder"} for s in sorted(out) if s
    ]
    return Source(source.path, source.kind, kept), left


def encode(
    source: "Source", encoder: "Encoder", folder: Path, at: Place, decoders: Decoders, progress: Progress
) -> list[dict[str, str]]:
    """Put the features of all items into `folder`; those that could not be read."""
    from cual.encoders.embedding import embed

    outcome = embed(
        source,
        encoder,
        folder,
        workers=1,
        progress=_of_all(len(source), progress),
        decode=_apart(encoder, decoders) if source.kind == "image" else None,
    )
    decoders.check()
    if not outcome.encoded + outcome.reused:
        raise BadFile(f"none of the {len(source)} {source.kind}s could be read{_first_reason(outcome.skipped)}")
    return [
        {
            "source": pictures.short(s.source, at.path),
            "reason": without_paths(s.reason, [folder.parent, at.root]),
        }
        for s in outcome.skipped
    ]


def encoder_of(fingerprint: str, progress: Progress, threads: int | None = 1) -> "Encoder":
    """The encoder that an agent learned with, if it is one that the service runs."""
    from cual.encoders.base import Setup, trusted

    try:
        return trusted(fingerprint, None, Setup(threads=threads, progress=progress))
    except NotAllowed:  # what it says is for whoever can name an encoder, which nobody can here
        raise BadOption(
            f"the agent's encoder {fingerprint} is not one that the service runs; encode with `cual embed` "
            "and add the features"
        ) from None


def chosen_encoder(name: str | None, kind: Any, progress: Progress) -> "Encoder":
    """The built-in encoder that somebody chose, or the usual one."""
    from cual.encoders.base import Setup, default, is_built_in, make

    chosen = name or default(kind)
    if not is_built_in(chosen) and name is not None:
        raise BadOption(f"{name} is not an encoder that the service runs")
    return make(chosen, Setup(threads=1, progress=progress))


def _of_all(n: int, progress: Progress) -> Progress:
    """Progress of encoding `n` items in all: after a kill, `embed` counts what is left."""

    def report(stage: str, done: int, total: int) -> None:
        progress(stage, n - total + done, n)

    return report


def _apart(encoder: "Encoder", decoders: Decoders) -> Callable[["Item", int], Any]:
    """Have images decoded apart from this process, and if possible all that is done to them there as well."""
    from cual.encoders.sources import Undecoded

    given = input_of(encoder)

    def decode(item: "Item", shorter: int) -> Any:
        if not isinstance(item.load, Undecoded):
            raise BadImage("it cannot be had as a file")
        if given is not None:
            return decoders.pixels(item.load.raw(), shorter, given)
        return encoder.prepare(decoders.rgb(item.load.raw(), shorter))

    return decode


def _first_reason(skipped: "list[Skipped]") -> str:
    return f"; the first: {skipped[0].reason}" if skipped else ""
