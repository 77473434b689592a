"""The target `xnnpack`: ExecuTorch programs whose heavy operators run in XNNPACK, on any CPU."""
