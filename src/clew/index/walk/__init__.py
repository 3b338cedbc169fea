"""The walk of a folder: find its files and chat exports, and apply the ignore rules."""
