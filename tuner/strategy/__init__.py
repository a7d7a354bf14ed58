"""Where candidates come from: one strategy a file, all behind `interfaces.Strategy`."""
