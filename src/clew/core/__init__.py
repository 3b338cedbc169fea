"""What all layers share: types, protocols, errors, settings, text, time, trace and usage. Imports nothing above it."""
