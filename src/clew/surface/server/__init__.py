"""The server: the verbs of the engine over HTTP, as OpenAI's clients speak it, and as an MCP server.

`app` joins the parts; `guard` stands before all of them; a file in `routes` has the paths of one subject. Nothing here
is imported before `clew serve` runs.
"""
