"""The engine `executorch`: runs .pte files with ExecuTorch's C++ runtime."""
