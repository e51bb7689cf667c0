"""Workspaces: the project as of some Git tree, in a folder of its own."""
