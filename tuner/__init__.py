"""Tunes one operator under one share; knows no Ray, no server and no other device."""
