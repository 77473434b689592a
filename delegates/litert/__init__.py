"""The target `litert`: a `.tflite` model for LiteRT, converted by litert-torch."""
