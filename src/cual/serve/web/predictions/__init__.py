"""Predictions while people wait: order, places, threads. HTTP is in `web.api.predictions`."""
