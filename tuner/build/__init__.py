"""Turns candidates into shared libraries, in warm workers that may not touch a device."""
