"""A model from anywhere -> a clean graph with static shapes; and the ONNX Runtime reference."""
