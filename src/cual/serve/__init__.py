"""The labelling service: rooms, of which lower ones never import higher ones.

``storage`` (tables and files) < ``rules`` (who may do what, and what it comes to) < ``jobs`` (what takes
time) < ``web`` (requests and pages) < ``operations`` (processes, logs). `worker` and `demo` are no room: they
are what ``python -m`` runs.
"""

import os

from cual.errors import Unavailable

if not hasattr(os, "fork"):  # the worker's jobs run in processes that are forked, watched and limited
    raise Unavailable(
        "the labelling service and its workspaces need Linux or macOS. On Windows, run them in WSL or in the "
        "container of deploy/; cual.Client and `cual watch` reach them from there"
    )
