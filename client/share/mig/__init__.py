"""MIG: instances of a GPU, created for a run only where that was asked for, destroyed after it."""
