"""Memory: which values stay in the SRAM, and the address of every buffer."""
