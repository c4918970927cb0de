"""What cual says of a release's files, and how they are gone on with: used by the maker and by the tests alike.

Called twice, with the release's code to write down what it says and with today's to compare. Only contracts are
called (load, ask, tell, finish, the workspace's methods), for what is behind them may move between releases.
"""

import gzip
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from cual import SKIP, Adaptation, Agent
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.records import OPERATOR, Person
from cual.serve.rules.workspace import Workspace

FIRST = Path(__file__).parent / "release-0.1.0"
SECOND = Path(__file__).parent / "release-0.2.0"
TIMES = ("asked_at", "told_at", "created_at", "finished_at", "at", "lent_until")
"""Fields that say when something happened: only what the release wrote itself can be compared."""
CUAL = (sys.executable, "-c", "from cual.cli import app; app()")
PROTOCOL = ("--features", "digits", "--first", "2", "--increment", "1", "--budget", "0.02", "--buffer", "500")
"""That of `cual demo`."""
NOT_COMPARED = ("seconds", "timings")
"""Fields of a result row that differ from run to run."""

Row = dict[str, Any]
Truth = Mapping[Any, Any]
"""The true label of each sample: the fixed rule by which everything is answered."""


def arithmetic() -> str:
    """A fingerprint of how this machine rounds, from torch alone: bits can only be compared where it is equal.

    Other processors and other versions of torch add up in another order, whatever cual does.
    """
    A = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
    y = torch.arange(200) % 3
    outer = torch.linspace(-0.3, 0.3, 64 * 16).reshape(64, 16).requires_grad_()
    inner = torch.linspace(-0.3, 0.3, 16 * 3).reshape(16, 3).requires_grad_()
    training = torch.optim.Adam([outer, inner], lr=1e-2)
    for _ in range(5):
        training.zero_grad()
        torch.nn.functional.cross_entropy(torch.relu(A @ outer) @ inner, y).backward()
        training.step()
    spread = (A.T @ A).double() / 200 + torch.eye(64, dtype=torch.float64)
    found = [A @ A.T, *torch.linalg.eigh(spread), *torch.linalg.eigh(spread.float()), torch.linalg.svdvals(A)]
    found += [torch.linalg.cholesky(spread), torch.linalg.solve(spread, A.T.double())]
    found += [torch.softmax(A, dim=1), torch.cdist(A, A), A.double().std(dim=0), outer, inner]
    digest = hashlib.sha256()
    for tensor in found:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """As JSON has it: records become dictionaries, moments text, "cannot tell" null."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if value is SKIP:
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.tolist()


def timeless(value: Any) -> Any:
    """The same without the moments at which things happened."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in TIMES}
    return [timeless(v) for v in value] if isinstance(value, list) else value


# -- agents ----------------------------------------------------------------------------------------------------


def tensors(agent: Agent) -> dict[str, np.ndarray]:
    """Everything that an agent holds, by the names that its file gives."""
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent")
        return file_tensors(Path(folder) / "agent")


def file_tensors(path: Path) -> dict[str, np.ndarray]:
    with safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def digests(agent: Agent) -> dict[str, str]:
    """Type, shape and bytes of each tensor, as one line."""
    return {
        name: f"{t.dtype} {list(t.shape)} {hashlib.sha256(t.tobytes()).hexdigest()}"
        for name, t in sorted(tensors(agent).items())
    }


def said_of_agent(agent: Agent) -> Row:
    held = agent.threshold
    return plain(
        {
            "method": agent.method.name,
            "seed": agent.seed,
            "version": agent.version,
            "classes": agent.classes_.tolist(),
            "width": agent.width,
            "encoder": agent.encoder,
            "history": list(agent.history),
            "threshold": [held.value, held.mean, held.std],
        }
    )


def learned(agent: Agent) -> Row:
    """The same, and the bits that it has learned."""
    return {**said_of_agent(agent), "tensors": digests(agent)}


def outputs(agent: Agent, X: np.ndarray) -> dict[str, np.ndarray]:
    """What it says of fixed rows."""
    return {
        "predictions": agent.predict(X),
        "probabilities": agent.predict_proba(X),
        "novelty": agent.novelty(X),
    }


def all_outputs(agent: Agent, X: np.ndarray) -> dict[str, np.ndarray]:
    """The same, and what agents say since 0.2.0."""
    calibrated = agent.calibrated(X)
    together, threshold = agent.novelty_together(X)
    more = {"together": together, "threshold_together": np.array([threshold.value])}
    more["unexplained"] = agent.unexplained.numpy()
    return outputs(agent, X) | more | ({} if calibrated is None else {"calibrated": calibrated})


def options_then(method: str, options: Row) -> Row:
    """Options under which a release fitted an agent; the defaults of its closed-form head are others now."""
    if method != "cual-plus":
        return options
    name = "head_options" if "head_options" in options else "head"
    return {**options, name: {"shrink": 0.5, "even": 0.25, "scarce": 0.0, **options.get(name, {})}}


def repaired(agent: Agent, X: np.ndarray, labels: list[str]) -> Agent:
    """Taught with a mistake, which is put right: every kind of repair, one after the other."""
    y = ["uhu" if label == "owl" and row % 2 else label for row, label in enumerate(labels)]
    ids = [f"lesson/{row}" for row in range(len(y))]
    agent = agent.teach(X, y, ids=ids, person="ann", why="labels of May")
    agent = agent.merge_classes("owl", "uhu", person="ann", why="the same bird")
    agent = agent.rename_class("dog", "hound", why="in English")
    agent = agent.forget(X[:3], ids=ids[:3], why="withdrawn")
    split = agent.propose_split("cat")
    return agent.split_class("cat", split.X, split.labels(["cat", "tabby"], {}), exact=False)


def taught_on(agent: Agent, X: np.ndarray, labels: list[str]) -> Agent:
    """More labels, and one class less: what agents that were put right are gone on with."""
    y = ["hound" if label == "dog" else label for label in labels]
    return agent.teach(X, y).remove_class("tabby", exact=False)


# -- adaptations -----------------------------------------------------------------------------------------------


def answer_all(task: Adaptation, truth: Truth) -> Adaptation:
    while query := task.ask():
        task.tell(query.id, {sample: truth[sample] for sample in query.ids})
    return task


def said_of_adaptation(task: Adaptation) -> Row:
    return plain(
        {
            "budget": task.budget,
            "labels_used": task.labels_used,
            "ended": task.ended,
            "pseudo_labels": list(task.pseudo_labels.items()),
            "doubts": list(task.doubts.items()),
            "outcome": task.outcome,
            "outlook": str(task.outlook),
            "history": rounds(task.history),
        }
    )


def saved(task: Adaptation) -> Row:
    """How it stands, and all that has happened, with the moments."""
    return {
        **said_of_adaptation(task),
        "answers": plain(list(task.answers.items())),
        "journal": plain(task.journal),
    }


def finished(task: Adaptation, truth: Truth) -> tuple[Row, Agent]:
    """Go on to the end, and say what came of it."""
    agent = answer_all(task, truth).finish()
    said = {**said_of_adaptation(task), "ledger": timeless(plain(task.ledger)), "agent": learned(agent)}
    return said, agent


def rounds(history: Iterable[Row]) -> list[Row]:
    """Of the long histograms only the counts."""
    return [{**row, "histogram": row["histogram"]["counts"]} for row in history]


# -- a workspace -----------------------------------------------------------------------------------------------


def said_of_workspace(workspace: Workspace) -> Row:
    """What people see of agents, pools and adaptations."""
    agents = [record.id for record in workspace.agents()]
    tasks = sorted(record.id for record in workspace.adaptations())
    return plain(
        {
            "agents": workspace.agents(),
            "versions": {str(agent): workspace.versions(agent) for agent in agents},
            "pools": workspace.pools(),
            "adaptations": {str(task): workspace.adaptation(task) for task in tasks},
            "pseudo_labels": {str(task): workspace.pseudo_labels(task) for task in tasks},
            "history": {str(task): rounds(workspace.history(task)) for task in tasks},
        }
    )


def opened(workspace: Workspace) -> Row:
    """As it was found: also every answer, with the moments, and what the page draws."""
    tasks = sorted(record.id for record in workspace.adaptations())
    ready = [record.id for record in workspace.pools() if record.state == "ready"]
    more = {
        "questions": {str(task): workspace.questions(task) for task in tasks},
        "scores": {str(task): workspace.scores(task) for task in tasks},
        "maps": {str(task): workspace.map(task) for task in tasks},
        "skipped": {str(pool): workspace.skipped(pool) for pool in ready},
    }
    return {**said_of_workspace(workspace), **plain(more)}


def said_of_jobs(workspace: Workspace) -> list[Row]:
    return plain(workspace.jobs())


def go_on(workspace: Workspace, person: Person, truths: Mapping[int, Truth]) -> None:
    """Be the worker and a person who knows every label, until each adaptation is over; the oldest first."""
    work_until_idle(workspace)
    for task in sorted(record.id for record in workspace.adaptations()):
        truth = truths[workspace.adaptation(task).pool]
        while workspace.adaptation(task).state == "asking":
            asked = workspace.questions(task, answered=False)
            workspace.answer(task, person, {question.id: truth[question.sample] for question in asked})
            work_until_idle(workspace)
        if workspace.adaptation(task).state == "review":
            workspace.finish(task, OPERATOR)
            work_until_idle(workspace)


def ended(workspace: Workspace) -> Row:
    """What came of everything, without the moments."""
    tasks = sorted(record.id for record in workspace.adaptations())
    versions = [(record.id, v.number) for record in workspace.agents() for v in workspace.versions(record.id)]
    return timeless(
        {
            **said_of_workspace(workspace),
            "ledgers": {str(task): plain(workspace.ledger(task)) for task in tasks},
            "learned": {f"{a}.{v}": learned(workspace.load_agent(a, v)) for a, v in versions},
        }
    )


# -- files -----------------------------------------------------------------------------------------------------


def write_expected(folder: Path, said: Row, arrays: Mapping[str, np.ndarray]) -> None:
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    (folder / "expected.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    np.savez_compressed(folder / "arrays.npz", allow_pickle=False, **arrays)


def read_expected(folder: Path) -> Row:
    return json.loads(gzip.decompress((folder / "expected.json.gz").read_bytes()))


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "arrays.npz", allow_pickle=False) as held:
        return dict(held)


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Result rows without the times."""
    return [{k: v for k, v in row.items() if k not in NOT_COMPARED} for row in rows]


SURENESS = ("doubts", "doubt", "outlook")


def but_sureness(said: Row) -> Row:
    """What is said of an adaptation of cual-plus, without how sure it is after the last answer.

    That is measured otherwise since 0.2.0. Whom it asks, what it believes and what is learned is compared.
    """
    kept = {key: value for key, value in said.items() if key not in SURENESS}
    return kept | {"history": said["history"][:-1]} if said.get("history") else kept


def check_still(found: Any, expected: Any, where: str = "") -> None:
    """All that a release said is said still, and the same; a later one may say more, in further fields."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert not expected.keys() - found.keys(), where
        for key in expected:
            check_still(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list), where
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            check_still(one, other, f"{where}/{i}")
    else:
        assert (type(found), found) == (type(expected), expected), where
