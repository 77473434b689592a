"""Images as engines take them: in a batch, and laid along the dimension that their kernels go through."""
