"""The outermost layer: the command line, the HTTP and MCP servers, the web page, and the loading of settings."""
