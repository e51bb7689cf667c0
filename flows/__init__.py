"""The only code that knows Prefect, argv and where files lie; calls stages, holds no arithmetic."""
