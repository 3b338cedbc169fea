"""Readers of office formats, spreadsheets, e-books, mail and subtitles."""
