"""Layouts: for each group of operators one of the layouts that it takes, so that what the groups
and the transposes between them cost is least.

`choices` and `prices` say what may be chosen and what it costs, `network` makes a problem of it,
`solve` finds the answer (with `eliminate`, `milp`, `blocks` and `greedy`), and `rewrite` puts it
into the draft.
"""
