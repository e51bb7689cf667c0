"""Everything about recipes: the six stages and the rooms they call."""
