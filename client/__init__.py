"""One machine with devices: what it offers, the share in force, and the agent that tunes there."""
