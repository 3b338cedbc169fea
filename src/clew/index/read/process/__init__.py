"""The process in which files are parsed that a parser could hang, crash or fill the memory on.

`pool` is the side of the caller: it starts the process, keeps it for the next file, and ends it at a limit. `worker` is
the process itself, `wire` the messages between the two, `limits` the part of it that readers see.
"""
