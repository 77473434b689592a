"""Why a model cannot be captured: the user's line, the cause, and what to write instead."""
