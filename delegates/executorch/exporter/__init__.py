"""What stands in for parts of ExecuTorch's exporter while a program is lowered, one part a file."""
