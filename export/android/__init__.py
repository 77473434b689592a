"""`edgex android`: a sample app around an artifact, as a complete Gradle project.

`generate.generate_app` is the whole flow. The sources come from `samples/android` and are the same for every model;
what the app knows of its model is data: `assets/edgex/manifest.json` (`description`), the native file and the golden
data (`golden_files`).
"""
