"""Accuracy, size and speed of quantized artifacts beside float32."""
