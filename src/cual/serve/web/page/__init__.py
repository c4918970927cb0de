"""The page: NiceGUI on the service's FastAPI app. It shows what the workspace says, and computes nothing."""

from cual.serve.web.page.mount import add_pages

__all__ = ["add_pages"]
