"""Conversations as sources: context windows, message scores, writing styles, links."""
