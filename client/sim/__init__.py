"""GPUs that do not exist: their times follow a law, and everything they say is marked SIMULATED."""
