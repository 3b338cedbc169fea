"""Does it work? Judged questions and stopwatches in, tables out."""
