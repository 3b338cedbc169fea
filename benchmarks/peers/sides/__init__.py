"""One module per framework; each has a class `Side`, as `benchmarks.peers.worker.Side` describes it."""
