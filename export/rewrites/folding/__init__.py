"""What is computed once: here where it depends on no input, and at run time where it is written twice."""
