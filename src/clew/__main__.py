"""`python -m clew`: the command line."""

from clew.surface.cli.app import main

if __name__ == "__main__":
    main()
