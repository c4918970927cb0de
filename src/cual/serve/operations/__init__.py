"""Running it: processes, logs, an example. Nothing here is part of what is served."""
