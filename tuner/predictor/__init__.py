"""How long a draft will take, from its tiles: laws first, then what they got wrong, learned."""
