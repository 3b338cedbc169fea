"""Clew beside LanceDB, LangChain, LlamaIndex and Haystack: the same documents and vectors, each in its own environment.

A side is a module of `sides/` written as the quickstart and the hybrid guide of its framework suggest. `worker` runs
one side in its environment, `run` drives the workers and prints the table. This package is imported in environments
without Clew, so nothing but `run` and `data` may import it.
"""
