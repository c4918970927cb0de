"""The labelling service."""
