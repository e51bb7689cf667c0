"""What is said on the terminal, and how."""
