"""The labelling service: rooms, of which lower ones never import higher ones.

``storage`` (tables and files) < ``rules`` (who may do what, and what it comes to) < ``jobs`` (what takes
time) < ``web`` (requests and pages) < ``operations`` (processes, logs). `worker` and `demo` are no room: they
are what ``python -m`` runs.
"""
