"""What edgex itself costs: a call, a start, an export, `why`, an HTML page."""
