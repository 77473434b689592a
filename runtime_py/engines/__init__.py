"""The engines that execute native files, each behind one adapter."""
