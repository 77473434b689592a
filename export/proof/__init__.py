"""The proof: cases with eager's answers, a fresh process that must give the same ones, and how they are judged."""
