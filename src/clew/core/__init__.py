"""The base of all layers: types, protocols, errors, settings, text, time, trace and usage. Imports nothing above it."""
