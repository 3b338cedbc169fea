"""The process in which files are parsed that a parser could hang, crash or fill the memory on.

`pool` is the side of the caller: it starts the process, keeps it for the next file, and ends it where a limit is
reached. `worker` is the process itself, `wire` what goes between the two, `stream` and `reply` what comes back,
`limits` what the readers know of them.
"""
