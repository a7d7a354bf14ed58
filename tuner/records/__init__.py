"""What was measured, kept for good: one line a record, and the questions asked of them."""
