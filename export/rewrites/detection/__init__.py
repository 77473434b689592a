"""Operators of torchvision, which no engine has, in PyTorch's own."""
