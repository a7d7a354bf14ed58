"""The farm: decides what is tuned where, keeps the records, and judges the result."""
