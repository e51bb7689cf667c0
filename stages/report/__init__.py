"""Facts of a pair from the stages' reports, for people: figures, tables, Markdown."""
