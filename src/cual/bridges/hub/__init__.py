"""Agents on the Hugging Face Hub: pushed with a card, pulled by revision and checked. The card is in `card`.

A repository has three files: the agent (`Agent.save`), its card (README.md), and what was pushed, with the
agent's SHA-256. Who may push and pull is decided by the token that `huggingface_hub` finds (``hf auth login``,
or HF_TOKEN); there is no other way to give one.
"""

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from cual import __version__
from cual.agent import Agent
from cual.bridges.hub.card import model_card
from cual.errors import (
    BadOption,
    DamagedFile,
    ForeignFile,
    NewerFormat,
    NotAllowed,
    TooLarge,
    Unavailable,
)
from cual.storage import write_pieces
from cual.types import Row

AGENT = "agent.safetensors"
CARD = "README.md"
MANIFEST = "cual.json"
FORMAT = 1
LARGEST = 16 * 2**30
"""Bytes of an agent that is pulled, at most."""
LARGEST_MANIFEST = 2**20
MAIN = "main"
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Pushed:
    """Where an agent is now: the repository's commit, by which it can be pulled for good, and its SHA-256."""

    repo_id: str
    commit: str
    sha256: str
    url: str


@dataclass(frozen=True)
class Pulled:
    """An agent's file, in the cache of `huggingface_hub`, and the commit that it is of."""

    repo_id: str
    commit: str
    sha256: str
    file: Path

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write the file to where somebody wants it, whole or not at all."""
        with self.file.open("rb") as source:
            write_pieces(Path(path), iter(lambda: source.read(2**24), b""))


def push(
    agent: Agent,
    repo_id: str,
    *,
    revision: str | None = None,
    private: bool = True,
    license: str | None = None,
    message: str | None = None,
    force: bool = False,
) -> Pushed:
    """Put an agent and its card into a repository of models; parameters as `Agent.push_to_hub` has them."""
    if license is not None and not _LICENCE.fullmatch(license):
        raise BadOption(f"license is {license!r}; the hub has short names for them, such as apache-2.0")
    hub = _hub()
    api = hub.HfApi(library_name="cual", library_version=__version__)
    with _errors(repo_id, api.endpoint), tempfile.TemporaryDirectory(prefix="cual-push-") as folder:
        file = Path(folder) / AGENT
        agent.save(file)
        sha256 = _sha256(file)
        api.create_repo(repo_id, private=private, exist_ok=True)
        branch = revision or MAIN
        if revision is not None and revision != MAIN:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        if not force:
            _check_ours(api, repo_id, branch)
        card = model_card(agent, repo_id, sha256, license)
        additions = [
            hub.CommitOperationAdd(AGENT, str(file)),
            hub.CommitOperationAdd(MANIFEST, _manifest(agent, file, sha256)),
            hub.CommitOperationAdd(CARD, card.encode()),
        ]
        said = message or f"Version {agent.version}: {len(agent.names)} classes"
        with _quiet(hub):
            commit = api.create_commit(repo_id, additions, commit_message=said, revision=branch)
    return Pushed(repo_id, str(commit.oid), sha256, str(commit.commit_url))


def pull(
    repo_id: str, *, revision: str | None = None, sha256: str | None = None, largest: int = LARGEST
) -> Pulled:
    """Fetch an agent's file, checked by its SHA-256, into the cache of `huggingface_hub`.

    Nothing of it is run, and nothing that it names is fetched. Parameters as `Agent.from_hub` has them, and:

    Parameters
    ----------
    largest
        Bytes; a larger file is not fetched.
    """
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise BadOption(f"sha256 is {sha256!r:.80}; it is 64 digits, 0 to 9 and a to f")
    hub = _hub()
    api = hub.HfApi(library_name="cual", library_version=__version__)
    with _errors(repo_id, api.endpoint, revision), _quiet(hub):
        commit = str(api.model_info(repo_id, revision=revision).sha)
        sizes = {
            str(info.path): int(info.size)
            for info in api.get_paths_info(repo_id, [MANIFEST, AGENT], revision=commit)
            if getattr(info, "size", None) is not None
        }
        if set(sizes) != {MANIFEST, AGENT}:
            raise ForeignFile(f"{repo_id} holds no agent of cual: {AGENT} and {MANIFEST} are not there")
        _check_size(repo_id, MANIFEST, sizes[MANIFEST], LARGEST_MANIFEST)
        _check_size(repo_id, AGENT, sizes[AGENT], largest)
        manifest = _read_manifest(repo_id, Path(api.hf_hub_download(repo_id, MANIFEST, revision=commit)))
        file = Path(api.hf_hub_download(repo_id, AGENT, revision=commit))
    given = _sha256(file)
    for expected, who in ((manifest["sha256"], MANIFEST), (sha256, "you")):
        if expected is not None and given != expected:
            raise DamagedFile(
                f"{AGENT} of {repo_id} at {commit} has the SHA-256 {given}, but {who} said {expected}; "
                "it was changed after it was pushed, or is another one"
            )
    return Pulled(repo_id, commit, given, file)


def pull_agent(
    repo_id: str,
    *,
    revision: str | None = None,
    sha256: str | None = None,
    device: str | torch.device = "cpu",
    largest: int = LARGEST,
) -> Agent:
    """The agent in a repository; see `pull`."""
    return Agent.load(pull(repo_id, revision=revision, sha256=sha256, largest=largest).file, device=device)


def _manifest(agent: Agent, file: Path, sha256: str) -> bytes:
    body = {
        "format": FORMAT,
        "file": AGENT,
        "sha256": sha256,
        "bytes": file.stat().st_size,
        "cual": __version__,
        "method": agent.method.name,
        "version": agent.version,
        "classes": len(agent.names),
        "width": agent.width,
        "encoder": agent.encoder,
    }
    return (json.dumps(body, ensure_ascii=False, indent=1) + "\n").encode()


def _read_manifest(repo_id: str, file: Path) -> Row:
    _check_size(repo_id, MANIFEST, file.stat().st_size, LARGEST_MANIFEST)
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{MANIFEST} of {repo_id} is damaged: {error}") from error
    manifest = cast(Row, body) if isinstance(body, dict) else {}
    if not isinstance(manifest.get("sha256"), str) or not isinstance(manifest.get("format"), int):
        raise DamagedFile(f"{MANIFEST} of {repo_id} does not say the SHA-256 of the agent")
    if manifest["format"] > FORMAT:
        raise NewerFormat(f"{repo_id} has format {manifest['format']}, this cual reads {FORMAT}: update cual")
    return manifest


def _check_ours(api: Any, repo_id: str, branch: str) -> None:
    """Refuse a repository with a card that cual did not write: a mistyped name would replace it."""
    there = {str(info.path) for info in api.get_paths_info(repo_id, [MANIFEST, CARD], revision=branch)}
    if there == {CARD}:
        raise BadOption(
            f"{repo_id} holds something else: a card that cual did not write; choose another repository, or "
            "say force (--force), which replaces the card"
        )


def _check_size(repo_id: str, name: str, size: int, largest: int) -> None:
    if size > largest:
        raise TooLarge(f"{name} of {repo_id} has {size} bytes, more than the {largest} that are fetched")


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise Unavailable("the Hugging Face Hub needs huggingface_hub: pip install 'cual[hub]'") from error
    return cast(Any, huggingface_hub)


@contextmanager
def _quiet(hub: Any) -> Generator[None]:
    """Without bars and lines of its own: what came of it is said once."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    bars = not hub.utils.are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    if bars:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(before)
        if bars:
            hub.utils.enable_progress_bars()


@contextmanager
def _errors(repo_id: str, endpoint: str, revision: str | None = None) -> Generator[None]:
    """What `huggingface_hub` raises, as an error that says what to do."""
    errors = _hub().errors
    try:
        yield
    except errors.HFValidationError as error:
        raise BadOption(f"{repo_id!r} is no name of a repository, write owner/name: {_first(error)}") from error
    except errors.GatedRepoError as error:
        raise NotAllowed(
            f"{repo_id} asks for its terms to be accepted first, on {endpoint}/{repo_id}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise BadOption(f"{repo_id} has no revision {revision or MAIN!r}") from error
    except errors.RepositoryNotFoundError as error:
        raise Unavailable(
            f"there is no model {repo_id} on {endpoint}, or it is not yours to see; check the name, and sign "
            "in: hf auth login"
        ) from error
    except errors.EntryNotFoundError as error:
        raise Unavailable(f"{repo_id} could not be fetched: {_first(error)}") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise NotAllowed(
                f"{endpoint} does not let you use {repo_id} so; sign in with a token that may: hf auth login"
            ) from error
        raise Unavailable(f"{endpoint} answered with an error: {_first(error)}") from error
    except (errors.HTTPError, errors.OfflineModeIsEnabled, ConnectionError, TimeoutError) as error:
        raise Unavailable(
            f"{endpoint} cannot be reached: {_first(error) or type(error).__name__}. Without a network, carry "
            "the agent as a file: Agent.save, Agent.load"
        ) from error
    except RuntimeError as error:  # an upload that failed on its way
        cause = error.__cause__
        if cause is None or not isinstance(cause, errors.HTTPError | OSError):
            raise
        raise Unavailable(f"{repo_id} could not be written: {_first(cause)}") from error


def _first(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300].rstrip(".:")
