"""GEMMs too small for the array: other forms of the same arithmetic, and what each would cost."""
