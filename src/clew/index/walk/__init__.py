"""The walk of a folder: which files and chat exports are found in it, and which the rules pass over."""
