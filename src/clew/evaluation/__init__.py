"""Measuring a collection on the user's own judged questions, making such questions, and tuning settings by them.

Functions over an open Engine: questions in, measures of each strategy and setting out, with tests of the differences.
"""
