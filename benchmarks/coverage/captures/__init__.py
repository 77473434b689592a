"""Capture alone, over whole families of models: what torch.export captures right, edgex must not refuse."""
