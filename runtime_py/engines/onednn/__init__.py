"""The plug-in `onednn` of the engine executorch: a backend that runs regions with oneDNN Graph.

`native/` is its C++ source. It lies here and not with the delegate, because whoever runs an artifact compiles it.
"""
