"""Links that generators of documentation add to a page: permalinks of headings, and those to the pages around it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_PERMALINK_SIGNS = frozenset({"¶", "#", "§", "🔗", "⁋", "∞"})
_PANEL_TAGS = frozenset({"div", "p", "table"})
_PANEL_CLASSES = frozenset({"nav-panel", "header", "footer", "node"})
_TO_PAGES_AROUND = "a[rel~=next], a[rel~=prev], a[rel~=previous], a[rel~=up]"


def is_permalink(node: "LexborNode") -> bool:
    """Whether an element is a link to its own place in the page, shown as a sign such as ¶."""
    return node.tag == "a" and node.text(deep=True).strip() in _PERMALINK_SIGNS and _has_fragment(node)


def is_navigation_panel(node: "LexborNode") -> bool:
    """Whether an element is the line of links to the next page, the one before and the one above."""
    if node.tag not in _PANEL_TAGS or _PANEL_CLASSES.isdisjoint((node.attributes.get("class") or "").split()):
        return False
    return node.css_first(_TO_PAGES_AROUND) is not None and node.css_first("h1, h2, h3") is None


def _has_fragment(node: "LexborNode") -> bool:
    return "#" in (node.attributes.get("href") or "")
