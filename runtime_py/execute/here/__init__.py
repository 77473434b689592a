"""This machine as an executor: in this process, or in a fresh one."""
