"""The HTTP API: one router per thing, and what they share in `common`. The work is done by the workspace."""
