# `make run` and `make test` need Python 3.11, 3.12 or 3.13 and nothing else.
PYTHON ?= $(shell for v in 3.11 3.12 3.13; do command -v python$$v >/dev/null && python$$v -c pass 2>/dev/null && echo python$$v && break; done || echo python3)
