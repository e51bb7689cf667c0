"""One pass a file; `stages/compiler/pipeline.py` lists them in their order."""
