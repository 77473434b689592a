"""The target `aoti`: a program compiled for x86-64 processors by TorchInductor and the user's C++ compiler."""
