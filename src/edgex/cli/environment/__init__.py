"""Commands about this environment: targets, devices, doctor, explain."""
