"""The thin outside: settings and the command line."""
