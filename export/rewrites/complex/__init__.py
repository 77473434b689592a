"""Complex arithmetic and Fourier transforms in real tensors."""
