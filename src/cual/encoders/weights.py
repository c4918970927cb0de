"""Files from elsewhere: fetched once into the cache, resumed, checked by hash. Weights load without pickle."""

import hashlib
import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cual.encoders.base import Setup, name_it
from cual.errors import BadFile, BadOption, DamagedFile, NotAllowed, Unavailable
from cual.locks import alone
from cual.storage import write_bytes
from cual.types import Progress

TIMEOUT = 30.0
BLOCK = 2**20
SEEN = "downloads.json"
"""In the cache folder: what was downloaded, when no hash was known beforehand, and what it hashed to."""


@dataclass(frozen=True)
class Download:
    """A file at its official address.

    `sha256` is None where its publisher tells none and we could not check one: then the hash of the first
    download is written down beside it, and every later use must match that.
    """

    url: str
    sha256: str | None = None
    md5: str | None = None
    """What its publisher tells where that is no SHA-256: finds damage, if not malice."""
    most_bytes: int = 4 * 2**30
    licence: str = ""

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2].partition("?")[0]


def cache_folder() -> Path:
    """Where downloads, exported networks and embeddings are kept: `$CUAL_CACHE`, else `~/.cache/cual`."""
    given = os.environ.get("CUAL_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cual"


def weights_file(spec: str, download: Download, setup: Setup) -> Path:
    """An encoder's weights: the file that the user names, else that of the cache, fetched if it may be."""
    if setup.weights is not None:
        return local(setup.weights, setup.sha256)
    folder = cache_folder() / "weights"
    if not setup.download and not (folder / download.file).exists():
        raise NotAllowed(
            f"the weights of {spec} are not on this machine, and a file never decides what is downloaded. "
            f"If you want them, {name_it(spec)}"
        )
    return fetch(download, folder, setup.sha256, setup.progress)


def fetch(
    download: Download,
    folder: Path,
    sha256: str | None = None,
    progress: Progress | None = None,
    otherwise: str = "or name it with --weights FILE",
) -> Path:
    """The file of `download` in `folder`, downloaded if it is not there, and checked either way.

    `sha256` is what the user says it must hash to; where neither that nor a published hash is known, it must be
    the file that was downloaded first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / download.file
    given = None if sha256 is None else _checked_hash(sha256)
    with alone(folder / ".lock"):  # two that write to the same file would both end up with rubbish
        seen = _seen(folder).get(download.url)
        expected = given or download.sha256 or seen
        if target.exists():
            digest = check(target, expected, None if expected else download.md5)
        else:
            digest = _fetched(download, target, expected, progress, otherwise)
        if download.sha256 is None and digest != seen:
            write_bytes(folder / SEEN, json.dumps(_seen(folder) | {download.url: digest}, indent=1).encode())
    return target


def _fetched(
    download: Download, target: Path, sha256: str | None, progress: Progress | None, otherwise: str
) -> str:
    """Download to `target`, which then holds the whole and right file or nothing; its SHA-256."""
    part = target.with_name(target.name + ".part")
    try:
        _receive(download, part, progress)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(
            f"{download.url} could not be fetched ({reason}). Give the command again to go on, or download it "
            f"elsewhere and put it at {target} ({otherwise})"
        ) from error
    try:
        digest = check(part, sha256, download.md5, download.url)
        part.replace(target)
    except DamagedFile:
        part.unlink()
        raise
    finally:
        _tag(part).unlink(missing_ok=True)
    return digest


def check(path: Path, sha256: str | None, md5: str | None = None, what: str | None = None) -> str:
    """Refuse a file that does not hash to what it should; its SHA-256."""
    digest = file_sha256(path)
    if sha256 is not None and digest != sha256:
        raise DamagedFile(_wrong(what or str(path), "SHA-256", digest, sha256))
    if md5 is not None and (other := file_digest(path, "md5")) != md5:
        raise DamagedFile(_wrong(what or str(path), "MD5", other, md5))
    return digest


def local(path: Path, sha256: str | None) -> Path:
    """A file that the user names in place of a download; refused if it is not what it should be."""
    if not path.is_file():
        raise BadFile(f"{path}: no such file")
    if sha256 is not None:
        check(path, _checked_hash(sha256))
    return path


def check_packaged(folder: Path, files: Mapping[str, str], package: str) -> None:
    """Refuse what came with a package from PyPI unless each file hashes to what it did when we looked at it."""
    for name, sha256 in files.items():
        path = folder / name
        digest = file_sha256(path) if path.is_file() else None
        if digest != sha256:
            wrong = (
                "is not there" if digest is None else f"is refused: its SHA-256 is {digest}, expected {sha256}"
            )
            raise DamagedFile(f"{path} {wrong}. Install it again: pip install --force-reinstall {package}")


def _checked_hash(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text.strip()):
        raise BadOption(f"a SHA-256 has 64 digits from 0 to f; {text!r} is none")
    return text.strip().lower()


def file_sha256(path: Path) -> str:
    return file_digest(path, "sha256")


def file_digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def load_torch(path: Path) -> Mapping[str, Any]:
    """The tensors of a torch or safetensors file. Nothing in the file can run: `weights_only`."""
    import pickle

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise BadFile(f"{path} holds no plain weights: {str(error).splitlines()[0][:200]}") from error
    if not isinstance(state, Mapping):
        raise BadFile(f"{path} holds a {type(state).__name__}, not weights by name")
    return cast(Mapping[str, Any], state)


def _receive(download: Download, part: Path, progress: Progress | None) -> None:
    """Download into `part`, from where it was left."""
    tag = _tag(part)
    there = part.stat().st_size if part.exists() and tag.exists() else 0
    request = urllib.request.Request(download.url, headers={"User-Agent": "cual"})
    if there:
        request.add_header("Range", f"bytes={there}-")
        request.add_header("If-Range", tag.read_text(encoding="latin-1"))
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing lies beyond what is there: it is whole
            return
        raise
    with answer:
        if download.url.startswith("https:") and not answer.geturl().startswith("https:"):
            raise BadFile(f"{download.url} leads to {answer.geturl()}, which anybody could have changed")
        there = there if answer.status == 206 else 0
        total = there + int(answer.headers.get("Content-Length") or 0)
        if total > download.most_bytes:
            raise BadFile(f"{download.url} is {total:,} bytes; expected at most {download.most_bytes:,}")
        mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if mark:
            tag.write_text(mark, encoding="latin-1")  # as headers are
        with part.open("ab" if there else "wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                there += len(block)
                if there > download.most_bytes:
                    raise BadFile(f"{download.url} sends more than {download.most_bytes:,} bytes")
                if progress is not None:
                    progress(f"fetching {download.file}", there, max(total, there))
        if there < total:
            raise http.client.IncompleteRead(b"", total - there)


def _tag(part: Path) -> Path:
    """Beside what was received so far: the version of the file that it is of."""
    return part.with_name(part.name + ".tag")


def _seen(folder: Path) -> dict[str, str]:
    file = folder / SEEN
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
    except (ValueError, TypeError) as error:
        raise DamagedFile(f"{file} is damaged; delete it") from error


def _wrong(what: str, kind: str, digest: str, expected: str) -> str:
    return f"{what} is refused: its {kind} is {digest}, expected {expected}. Delete it, or fetch it again"
