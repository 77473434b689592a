"""Which of the nodes that XNNPACK takes go to it together."""
