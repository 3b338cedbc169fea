"""The read path, top to bottom: retrieve → fuse → dedupe → merge → budget → format; compose and strategies join."""
