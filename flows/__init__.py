"""The only code that knows Prefect, Git, argv and where files lie; calls `stages`."""
