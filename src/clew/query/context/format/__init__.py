"""Passages into prompt text."""

from clew.query.context.format.formatter import ContextFormatter, wrapped
from clew.query.context.format.renderers import RENDERERS, Renderer, Sheet, numbering

__all__ = ["RENDERERS", "ContextFormatter", "Renderer", "Sheet", "numbering", "wrapped"]
