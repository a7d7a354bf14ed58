"""Turns a model into operators, and operators into shards for clients."""
