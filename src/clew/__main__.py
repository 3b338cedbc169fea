"""`python -m clew`: the command line."""

from clew.surface.cli import main

if __name__ == "__main__":
    main()
