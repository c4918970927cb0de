"""One adaptation: events, the state they imply, budget and rounds; `Adaptation` drives it."""
