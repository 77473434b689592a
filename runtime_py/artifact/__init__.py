"""The artifact on disk: manifest, native files, golden data, tensor specs."""
