"""The server: the verbs of the engine over HTTP, the API of OpenAI's clients, and an MCP server.

`run` assembles the application; `guard` is the middleware that every request passes first; each module in `routes` has
the routes of one subject, such as documents.
Nothing here is imported before `clew serve` runs.
"""
