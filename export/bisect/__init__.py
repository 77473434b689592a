"""Which operators give other numbers by themselves: cut at partitions first, then inside, each part fed by eager."""
