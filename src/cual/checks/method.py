"""The contract of a method, by whole adaptations: budget, only paid labels, determinism, and the old classes.

The parts have contracts of their own; this one says that they work together.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cual.agent import Agent
from cual.checks.base import Suite, expect, untouched_random_state
from cual.checks.world import OLD, world
from cual.errors import BadOption
from cual.loop.adaptation import Adaptation
from cual.loop.budget import count_labels
from cual.methods import Method

suite = Suite[Method]("method", needs=("learner", "first", "then", "believe", "head", "to_json"))
BUDGET = 8


def begun(method: Method) -> Adaptation:
    """An adaptation of an agent that knows the old classes, with arrays of its own."""
    agent = Agent.fit(world().X.copy(), list(world().y), method=method)
    return agent.adapt(world().pool.copy(), BUDGET, ids=list(world().truth))


def answered(task: Adaptation, truth: Mapping[str, str]) -> list[str]:
    """Answer all queries; the samples that were asked about."""
    asked: list[str] = []
    while query := task.ask():
        samples = [str(sample) for sample in query.ids]
        expect(bool(samples), f"asks the query {query.id!r} about nothing")
        asked += samples
        task.tell(query.id, {sample: truth[sample] for sample in samples})
    return asked


def adapted(method: Method, truth: Mapping[str, str] | None = None) -> tuple[Agent, list[str]]:
    """The next agent, and what was asked for it."""
    task = begun(method)
    asked = answered(task, truth or world().truth)
    return task.finish(), asked


def file_of(agent: Agent) -> bytes:
    """An agent as it would lie on disk: equal bytes are an equal agent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        agent.save(path)
        return path.read_bytes()


@suite.check
def survives_json(method: Method) -> None:
    again = Method.from_json(method.to_json())
    expect(again == method, f"comes back from JSON as {again.to_json()}")
    expect(bool(method.name), "has no name")
    try:
        _ = method.but(no_method_has_such_an_option=1)
    except BadOption:
        return
    raise AssertionError("takes an option that it cannot have")


@suite.check
def budget_is_never_exceeded(method: Method) -> None:
    task = begun(method)
    asked = answered(task, world().truth)
    allowed = count_labels(BUDGET, len(task.pool), method.budget_factor)
    expect(len(asked) == len(set(asked)), "asks about a sample twice")
    expect(len(asked) <= allowed, f"asks about {len(asked)} samples, but its budget is {allowed}")
    expect(task.labels_used == len(asked), f"charges {task.labels_used} labels for {len(asked)} answers")
    unspent = task.outcome["unspent"]
    expect(unspent == allowed - len(asked), f"reports {unspent} labels unspent of {allowed}")


@suite.check
def same_seed_same_agent(method: Method) -> None:
    with untouched_random_state():
        first, again = (file_of(adapted(method)[0]) for _ in range(2))
    expect(first == again, "ends in another agent with the same seed and answers")


@suite.check
def unpaid_labels_are_never_seen(method: Method) -> None:
    """Everything that nobody was asked about gets another label: nothing may change."""
    after, asked = adapted(method)
    poisoned = {i: label if i in asked else "poison" for i, label in world().truth.items()}
    again, asked_again = adapted(method, poisoned)
    expect(asked == asked_again, "asks about other samples if labels that nobody paid for are others")
    expect(file_of(after) == file_of(again), "learns from labels that nobody paid for")


@suite.check
def resumes_exactly(method: Method) -> None:
    """Saved and read again before and after each query is answered, it ends in the same agent."""
    after, _ = adapted(method)
    with tempfile.TemporaryDirectory() as folder:
        task = _reopened(begun(method), folder)
        while query := task.ask():
            task = _reopened(task, folder)
            task.tell(query.id, {sample: world().truth[str(sample)] for sample in query.ids})
            task = _reopened(task, folder)
    expect(file_of(task.finish()) == file_of(after), "ends in another agent if it is resumed on the way")


def _reopened(task: Adaptation, folder: str) -> Adaptation:
    task.save(folder)
    return Adaptation.load(folder)


@suite.check
def agents_survive_files(method: Method) -> None:
    after, _ = adapted(method)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        after.save(path)
        again = Agent.load(path)
    same = np.array_equal(after.predict_proba(world().pool), again.predict_proba(world().pool))
    expect(same, "makes agents that predict something else when they are loaded")
    expect(again.method == method, "makes agents that have another method when they are loaded")


@suite.check
def leaves_the_old_agent_alone(method: Method) -> None:
    task = begun(method)
    before = file_of(task.agent)
    _ = answered(task, world().truth)
    _ = task.finish()
    expect(file_of(task.agent) == before, "changes the agent that it starts from")


@suite.check
def old_classes_are_still_predicted(method: Method) -> None:
    after, _ = adapted(method)
    labels = np.array(world().y)
    for name in OLD:
        share = float(np.mean(after.predict(world().X[labels == name]) == name))
        expect(share > 0.6, f"leaves an agent that knows only {share:.0%} of the old class {name!r}")
