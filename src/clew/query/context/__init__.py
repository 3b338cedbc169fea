"""From hits to prompt text: merge, grow, budget, format, cite."""
