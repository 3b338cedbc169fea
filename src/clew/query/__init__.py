"""The read path: rewrite → search → rank → context → answer; `search.find` is where the engine enters it."""
