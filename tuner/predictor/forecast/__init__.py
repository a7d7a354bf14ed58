"""Forecasts for a GPU that is not at hand; so far the catalogue of such GPUs."""
