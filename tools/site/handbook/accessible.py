"""What the theme leaves without a name, for those who hear a page instead of seeing it."""

_NAMES = {
    '<div class="md-search" data-md-component="search" role="dialog">': (
        '<div class="md-search" data-md-component="search" role="dialog" aria-label="Search">'
    ),
}


def named(page: str) -> str:
    """The HTML of a page with a name for everything that needs one."""
    for before, after in _NAMES.items():
        page = page.replace(before, after)
    return page
