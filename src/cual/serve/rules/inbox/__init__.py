"""What is sent to an agent and waits to become a pool: kept once, within limits, never lost once answered."""
