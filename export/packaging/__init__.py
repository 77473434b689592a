"""Write an artifact: the native files, the manifest and the debug files, published whole or not at all."""
