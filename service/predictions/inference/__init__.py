"""The Open Inference Protocol: its requests and replies, and the tensors in them."""
