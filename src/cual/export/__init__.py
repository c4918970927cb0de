"""Labels in files that other programs read, whatever their format. What a label is, `cual.loop.labels` says."""

from cual.export.base import COLUMNS, Format, Labels, format_of, formats
from cual.registry import import_all

import_all(__name__, __path__)

__all__ = ["COLUMNS", "Format", "Labels", "format_of", "formats"]
