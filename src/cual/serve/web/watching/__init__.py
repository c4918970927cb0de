"""Watching in the web process: predictions are counted as they are made, and webhooks are told."""
