"""`.pt2` files of strangers: everything that torch would evaluate in one is checked before torch sees the file."""
