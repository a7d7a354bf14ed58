"""Exec'd child processes: how they are born, spoken to, and ended."""
