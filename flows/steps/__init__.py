"""Steps: one stage of one pair each, what they need, and what came of them."""
