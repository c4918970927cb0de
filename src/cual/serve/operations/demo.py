"""A ready example: an agent that knows the digits 0 to 4, and a pool in which 5 to 9 turn up as well.

``python -m cual.serve.demo FOLDER`` makes it, ``cual serve FOLDER`` serves it.
"""

import argparse
import getpass
import sys
from pathlib import Path

from cual.errors import CualError
from cual.serve.jobs.worker import Worker
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import Person
from cual.serve.rules.workspace import Workspace
from cual.storage import keep_private

BUDGET = 30


def make_demo(folder: str | Path, database: str | None = None) -> Workspace:
    """A workspace with an agent, a pool of pictures, and an adaptation that asks as soon as it is served.

    An existing one is opened as it is, so that what was answered in it stays; one that was left half made is
    completed.
    """
    workspace = Workspace.open(folder, database)
    if workspace.adaptations():
        return workspace
    owner = Accounts(workspace.database).owner(_user())
    person = Person(owner.id, owner.name, owner.role)
    if not workspace.agents():
        workspace.make_example(person)
    Worker(workspace).run_until_idle()
    workspace.start(workspace.agents()[0].id, workspace.pools()[0].id, BUDGET, person)
    return workspace


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return "admin"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m cual.serve.demo", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to make the workspace")
    keep_private()
    try:
        make_demo(parser.parse_args(arguments).folder).close()
    except CualError as error:
        sys.exit(f"error: {error}")
