"""LiteRT as an engine: it runs `model.tflite` on its XNNPACK delegate."""
