"""Where the models of measurements come from, and a calibration of files."""
