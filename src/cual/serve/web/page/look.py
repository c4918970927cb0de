"""The look of every screen, light and dark: every text reaches 4.5:1 on what it stands on."""

from pathlib import Path

_FOLDER = Path(__file__).parent
LIGHT, DARK, PAGE = (
    (_FOLDER / name).read_text(encoding="utf-8") for name in ("light.css", "dark.css", "page.css")
)
STYLE = f"body {{\n{LIGHT}}}\nbody.body--dark {{\n{DARK}}}\n{PAGE}"
"""Of the pages."""
_AUTO = f"@media (prefers-color-scheme: dark) {{ body.auto {{\n{DARK}}} }}"
ALONE = f"body {{\n{LIGHT}}}\nbody.dark {{\n{DARK}}}\n{_AUTO}\n{PAGE}"
"""Of a page without the framework, whose body says which colours it wants: light, dark or auto."""
