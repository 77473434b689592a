"""The engine `aoti`: torch's loader runs what AOTInductor compiled."""
