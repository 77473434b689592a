"""Dynamic dimensions: what the user asks for, in the form of torch.export, and what to ask for instead."""
