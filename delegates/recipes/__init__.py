"""Quantization recipes, and the PT2E quantizers and observers behind them."""
