"""Renders passages as prompt text."""

from clew.query.context.format.formatter import ContextFormatter, wrap_context
from clew.query.context.format.renderers import RENDERERS, Renderer, RenderInput, number_documents

__all__ = ["RENDERERS", "ContextFormatter", "RenderInput", "Renderer", "number_documents", "wrap_context"]
