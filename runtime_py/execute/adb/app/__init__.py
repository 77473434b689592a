"""The benchmark app on an Android device: found or installed, started, and its output read."""
