"""A loaded artifact: its inputs checked, its runs judged against the golden data."""
