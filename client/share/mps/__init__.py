"""MPS: a percentage of a GPU's SMs for each client, by a daemon that is found or started."""
