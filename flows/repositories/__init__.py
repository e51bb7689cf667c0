"""Model repositories: other Git repositories, and what their commits changed."""
