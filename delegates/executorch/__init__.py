"""What every target that ends in a .pte shares: lowering through ExecuTorch, the plan, kernels, state, debug map."""
