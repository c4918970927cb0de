"""`cual serve` with other limits of connections, for tests of them. Arguments: FOLDER LIMITS [CERTIFICATE KEY].

Only what tests of connections need: there is no worker, and nobody can sign in.
"""

import json
import sys
from pathlib import Path

from cual.serve.operations import supervisor
from cual.serve.rules.workspace import Workspace
from cual.serve.web.app import create_app
from cual.serve.web.security.http_limits import ConnectionLimits
from cual.serve.web.settings import Settings


class NoWorker(supervisor.Worker):
    """Importing torch once more would take seconds."""

    def start(self) -> None:
        pass

    def end(self) -> None:
        pass


def main(folder: str, limits: str, *tls: str) -> None:
    workspace = Workspace.open(Path(folder))
    with supervisor.listen("127.0.0.1", None, 18865) as listening:
        settings = Settings(port=listening.getsockname()[1], tls=bool(tls))
        supervisor.run(
            create_app(workspace, settings),
            settings,
            listening,
            NoWorker(workspace.folder),
            (Path(tls[0]), Path(tls[1])) if tls else None,
            lambda: print(f"{settings.url}/sign-in?token=none", flush=True),
            ConnectionLimits(**json.loads(limits)),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
