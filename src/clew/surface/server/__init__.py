"""The server: the verbs of the engine over HTTP, the API of OpenAI's clients, and an MCP server.

`run` joins the parts; `guard` is the middleware before all of them; a file in `routes` has the paths of one subject.
Nothing here is imported before `clew serve` runs.
"""
