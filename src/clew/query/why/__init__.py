"""why_not: runs a search again, keeps the results of each step, and finds the step that lost a target."""
