"""Things timed in turns: one schedule, one loop, whatever takes part: artifacts, calls, requests to a device."""
