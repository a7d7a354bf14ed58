"""Checks a built candidate's output, then times it, in a light child born under the share."""
