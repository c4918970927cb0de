"""Questions asked in Label Studio: tasks with predictions go there, annotations come back as answers.

Needs httpx only, besides Label Studio itself, which runs elsewhere.
"""

from cual.bridges.label_studio.bridge import Bridge
from cual.bridges.label_studio.receiver import Receiver
from cual.bridges.label_studio.sources import FolderSource, ServiceSource, Source
from cual.bridges.label_studio.studio import LabelStudio

__all__ = ["Bridge", "FolderSource", "LabelStudio", "Receiver", "ServiceSource", "Source"]
