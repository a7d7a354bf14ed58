"""What a run says of itself: while it works, when it ends, and afterwards."""
