"""DVC's graph and store. The only room that touches DVC's internals."""
