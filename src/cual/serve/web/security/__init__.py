"""What every request passes before any route sees it: who sends it, and whether it may come in at all."""
