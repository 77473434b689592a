"""From scores to text: what is sampled, how the cache is kept, how ids become text and text becomes ids."""
