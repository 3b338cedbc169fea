"""From hits to prompt text: merge, expand, budget, format, cite."""
