"""The reader process, which parses files whose parser could hang, crash or exhaust the memory.

`pool` is the caller's side: it starts the process, keeps it for the next file, and kills it at a limit. `worker` is the
process itself, `wire` the messages between both, `limits` the part that readers use.
"""
