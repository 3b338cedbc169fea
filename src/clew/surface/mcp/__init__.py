"""The MCP server: a few verbs as tools, over standard input or mounted in the HTTP server."""
