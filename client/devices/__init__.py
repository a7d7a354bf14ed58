"""What this machine offers: its CPU, its GPUs, and the tools needed to build for them."""
