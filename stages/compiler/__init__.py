"""The compiler: graph and spec become recipe and plan; `pipeline.py` is its order of passes."""
