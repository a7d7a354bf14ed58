"""Builds the whole model tuned and untuned, compares the outputs, and times both in turn."""
