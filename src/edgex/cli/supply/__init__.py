"""Commands about where artifacts come from and what they are made of."""
