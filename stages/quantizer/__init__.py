"""From a quantisation file to what the compiler quantises by: calibrated ranges, and the operators
that must stay in float for an accuracy limit."""

from stages.quantizer.decide import Decided, decide
from stages.quantizer.settings import Settings, given_ranges, load_settings
from stages.quantizer.subject import Subject

__all__ = ["Decided", "Settings", "Subject", "decide", "given_ranges", "load_settings"]
