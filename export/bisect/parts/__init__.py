"""Parts of a program: what each operator computes in eager, where to cut, a part alone, and a verdict on it."""
