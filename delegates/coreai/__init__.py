"""The target `coreai`: an `.aimodel` for Apple's Core AI, converted by coreai-torch."""
