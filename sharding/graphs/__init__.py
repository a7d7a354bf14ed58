"""Models as kernels, by shapes alone: for forecasts, which make no weights and run nothing."""
