"""The compiler's version: hardware specs name the versions they need, packages the one they had."""

COMPILER_VERSION = "0.1.0"
