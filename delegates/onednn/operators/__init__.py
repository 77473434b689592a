"""The operators that oneDNN Graph runs, each with how it is lowered."""
