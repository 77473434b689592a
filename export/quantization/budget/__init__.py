"""What is asked of a quantized artifact beside its proof: an accuracy budget, speed beside float32, a report."""
