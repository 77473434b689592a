"""What training leaves in forward: fake quantizers and losses."""
