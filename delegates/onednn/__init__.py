"""The target `onednn`: regions that oneDNN Graph fuses and runs, inside a .pte."""
