"""A client of the server: the verbs over HTTP, with what they reply as typed dictionaries."""
