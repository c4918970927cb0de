"""HTML documents that stand alone, for whoever writes a report. What is in them, the writers know."""
