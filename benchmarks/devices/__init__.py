"""The coverage suite on LiteRT, on Core AI, and on QNN in its simulator."""
