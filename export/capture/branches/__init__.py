"""Branches that values of tensors decide: those of which one side holds for every input are taken to it."""
