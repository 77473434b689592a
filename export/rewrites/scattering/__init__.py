"""Values that go to places which other values name: sums and bags of rows, and what a mask chooses."""
